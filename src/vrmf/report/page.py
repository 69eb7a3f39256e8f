"""A report as one HTML page that needs nothing else: style, script, charts and images are inside of it.

The page loads nothing: its content security policy allows the one script and the one style sheet that it
holds, by their hashes, and images that are part of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from vrmf.arrays import Array, row_norms
from vrmf.extras import library
from vrmf.report import charts
from vrmf.report.contents import Contents
from vrmf.report.pictures import limits_of, picture, side_for
from vrmf.report.rows import part_names, row_data, shown_rows, top_rows

#: Atoms that are shown: as images, or as curves and lists of names.
MOST_IMAGES, MOST_ATOMS = 144, 18

#: Names of features of an atom.
MOST_NAMES = 10

#: Pixels of all images of atoms together.
MOST_PIXELS = 1_000_000


def render(contents: Contents) -> str:
    """Return the page."""
    places = shown_rows(contents.rows)
    data = row_data(contents, places)
    shares, used = _usage(contents)
    drawn = _charts(contents, data[0])
    drawn["usage"] = charts.usage(shares, used)
    atoms = _atoms(contents, shares, drawn)
    page = _template().render(
        contents=contents,
        rows=contents.rows,
        features=contents.features,
        parts=part_names(contents.rows),
        first=data[0],
        n_shown=len(places),
        top=[_top_row(contents, place, places) for place in top_rows(contents.rows)],
        what=_unusual(contents),
        signed_atoms=bool(np.min(contents.components) < 0),
        is_thinned=contents.features.kind == "curve" and contents.features.count > charts.MOST_POINTS,
        atoms=atoms,
        n_atoms=len(contents.components),
        usage=_usage_table(shares, used),
        charts=drawn,
        history=_history_table(contents),
        style=_style(),
        script=_script(),
        policy=_policy(),
        charts_json=_json(drawn),
        rows_json=_json(data),
    )
    return str(page)


def _charts(contents: Contents, first: dict[str, Any]) -> dict[str, charts.Chart]:
    """Return charts by the names under which the page shows them."""
    found = {
        "objective": charts.convergence(contents, "objective", "objective"),
        "stationarity": charts.convergence(contents, "relative_stationarity", "relative stationarity"),
        "energies": charts.energies(contents.rows, _unusual(contents)),
    }
    if contents.features.kind == "curve":
        names = part_names(contents.rows)
        names.pop("mask", None)
        found["row"] = charts.row_curves(contents.features, names, first["values"])
    return {name: chart for name, chart in found.items() if chart is not None}


def _unusual(contents: Contents) -> str:
    return "unexplained share" if contents.rows.outliers is None else "energy of the outliers"


def _usage(contents: Contents) -> tuple[Array, Array]:
    """Return the share of each atom in the energy of the rows, and of the rows that use it."""
    H = contents.rows.codes
    energy = np.sum(np.square(H, dtype=np.float64), axis=0) * row_norms(contents.components) ** 2
    return energy / (np.sum(energy) or 1.0), np.mean(H != 0, axis=0)


def _usage_table(shares: Array, used: Array) -> list[tuple[int, str, str]]:
    order = np.argsort(-shares, kind="stable")[: charts.MOST_BARS]
    return [(int(i), f"{shares[i]:.2%}", f"{used[i]:.1%}") for i in order]


def _atoms(contents: Contents, shares: Array, drawn: dict[str, charts.Chart]) -> list[dict[str, Any]]:
    """Return the atoms that are shown, in their order: the most used ones. Curves go to the charts."""
    D, features = contents.components, contents.features
    most = MOST_IMAGES if features.kind == "image" else MOST_ATOMS
    chosen = sorted(np.argsort(-shares, kind="stable")[:most].tolist())
    show = {"image": _atom_images, "curve": _atom_curves, "names": _atom_names}[features.kind]
    shown = show(contents, D[chosen], chosen, drawn)
    return [
        {"number": number, "share": f"{shares[number]:.1%}", **each}
        for number, each in zip(chosen, shown, strict=True)
    ]


def _atom_images(contents: Contents, D: Array, chosen: list[int], drawn: Any) -> list[dict[str, Any]]:
    shape = contents.features.image_shape
    assert shape is not None
    signed, side = bool(np.min(contents.components) < 0), side_for(len(D), shape, MOST_PIXELS)
    limits = [limits_of(np.append(atom, 0.0), signed=signed) for atom in D]
    return [
        {"image": picture(atom, shape, between, signed=signed, side=side)}
        for atom, between in zip(D, limits, strict=True)
    ]


def _atom_curves(
    contents: Contents, D: Array, chosen: list[int], drawn: dict[str, charts.Chart]
) -> list[dict[str, Any]]:
    limits = float(D.min(initial=0)), float(D.max(initial=0))
    for number, atom in zip(chosen, D, strict=True):
        drawn[f"atom-{number}"] = charts.curve(atom, contents.features, f"Atom {number}", limits)
    return [{"chart": f"atom-{number}"} for number in chosen]


def _atom_names(contents: Contents, D: Array, chosen: list[int], drawn: Any) -> list[dict[str, Any]]:
    names, found = contents.features.names, []
    for atom in D:
        order = np.argsort(-np.abs(atom), kind="stable")[:MOST_NAMES]
        reach = float(np.max(np.abs(atom))) or 1.0
        found.append(
            {
                "names": [
                    {
                        "name": str(i) if names is None else str(names[i]),
                        "value": f"{atom[i]:.3g}",
                        "width": round(100 * abs(float(atom[i])) / reach, 1),
                        "is_negative": bool(atom[i] < 0),
                    }
                    for i in order
                    if atom[i] != 0
                ]
            }
        )
    return found


def _top_row(contents: Contents, place: int, places: list[int]) -> dict[str, Any]:
    """Return what the list of rows with the most outliers says of a row."""
    value = contents.rows.unusual[place]
    told = f"{value:.1%}" if contents.rows.outliers is None else f"{value:.4g}"
    return {"label": contents.rows.label(place), "value": told, "shown": places.index(place)}


def _history_table(contents: Contents) -> list[list[str]]:
    """Return the convergence in numbers: at most a dozen lines, and the last."""
    history = contents.history
    known = [i for i, value in enumerate(history["objective"]) if np.isfinite(value)]
    if not known:
        return []
    kept = [known[i] for i in np.unique(np.linspace(0, len(known) - 1, 12).astype(int))]
    columns = ("passes", "seconds", "n_components", "objective", "relative_stationarity")
    return [[f"{history[column][i]:.4g}" for column in columns] for i in kept]


def _json(value: Any) -> str:
    """Return JSON that cannot end the element of a page in which it stands."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template() -> Any:
    jinja = library("jinja2", "A report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("page.html"))


@cache
def _style() -> str:
    return _file("page.css")


@cache
def _script() -> str:
    """Return the script of the page, with the libraries that draw its charts."""
    script: str = library("vl_convert", "A report").javascript_bundle(_file("page.js"))
    for word in ("/script", "!--"):  # with a backslash they mean the same in strings, and nothing to HTML
        script = script.replace(f"<{word}", f"<\\{word}")
    return "".join(letter if letter.isascii() else _escaped(letter) for letter in script)


def _escaped(letter: str) -> str:
    """Return a letter as JavaScript in any encoding of a page has it."""
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@cache
def _policy() -> str:
    """Return the content security policy of the page."""
    return (
        f"default-src 'none'; script-src '{_hash(_script())}'; style-src '{_hash(_style())}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
    return files("vrmf.report").joinpath(name).read_text(encoding="utf-8")
