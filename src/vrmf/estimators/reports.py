"""``report``: what a fitted model found in some rows, as one page."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from vrmf._version import __version__
from vrmf.arrays import Array
from vrmf.coding import EXACT
from vrmf.estimators.cautions import cautions, tolerance_of
from vrmf.estimators.html import figures_of, resolved_words, size_in_words, value_in_words
from vrmf.estimators.quality import CodeQuality
from vrmf.estimators.row_figures import RowFigures
from vrmf.estimators.summary import resolved_parameters
from vrmf.estimators.tiles import tiles
from vrmf.features import feature_axis, image_shape_of
from vrmf.report import Report
from vrmf.report.contents import Contents, Features, RowParts, Setting
from vrmf.report.page import render
from vrmf.report.wording import formula_of, in_groups
from vrmf.sources import AbstractSource
from vrmf.sources.tables import ArrayTable

#: Rows and entries that a report looks at, at most.
MOST_ROWS, MOST_ENTRIES = 10_000, 10_000_000

#: Letters of a name.
MOST_LETTERS = 100

#: Rows that it looks at in any case.
LEAST_ROWS = 50

#: Gives the codes, the low-rank part and the outliers of rows, and how good the codes are.
PartsOf = Callable[[Array], tuple[list[Array], CodeQuality]]


def report_of(
    model: Any, source: AbstractSource, parts_of: PartsOf, image_shape: tuple[int, ...] | None
) -> Report:
    """Return the report of a fitted model on the rows of a source.

    ``parts_of`` gives the codes, the low-rank part and the outliers of the rows with the given numbers.
    """
    features = _features(model, source, image_shape)
    rows, quality = _rows(model, source, parts_of)
    figures = RowFigures.of(rows)
    told = quality.sentence(EXACT, source.dtype)
    contents = Contents(
        model=type(model).__name__,
        size=_size(model, rows),
        about=_about(type(model)),
        formula=formula_of(model.formulation_),
        tiles=tiles(model, figures),
        figures=list(figures_of(model)),
        answer=_answer(model),
        stopped=f"Why the fit stopped: {model.stop_reason_}.",
        warnings=cautions(model, rows, figures) + ([] if told is None else [told]),
        settings=_settings(model),
        history=model.history_,
        tol=tolerance_of(model) or None,
        features=features,
        components=model.components_,
        rows=rows,
        made_with=f"Made with vrmf {__version__}.",
    )
    return Report(render(contents))


def _features(model: Any, source: AbstractSource, image_shape: tuple[int, ...] | None) -> Features:
    """Return how features lie: as pixels, along an axis, or each by itself with its name."""
    names = getattr(model, "feature_names_in_", None)
    shape = source.image_shape if image_shape is None else image_shape
    places, title = feature_axis(names, source.n_features)
    is_named = names is not None and title != ""
    return Features(
        source.n_features,
        None if names is None else [short_name(name) for name in names],
        image_shape_of(model, shape),
        None if is_named else places,
    )


def _rows(model: Any, source: AbstractSource, parts_of: PartsOf) -> tuple[RowParts, CodeQuality]:
    """Return some rows and their parts, all if they are few, and how good the codes are."""
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_ENTRIES // source.n_features), source.n_samples)
    numbers = np.unique(source.layout.spread(most))
    original = source.read_as(mean=None).rows(numbers)
    table = ArrayTable(original)
    table.feature_names = source.feature_names
    (codes, low_rank, outliers), quality = parts_of(numbers)
    rows = RowParts(
        numbers=numbers,
        names=_row_names(source, numbers),
        total=source.n_samples,
        codes=codes,
        original=original,
        low_rank=low_rank,
        outliers=outliers if model.formulation_.has_outliers else None,
        mask=_mask(model, table, outliers),
    )
    return rows, quality


def _row_names(source: AbstractSource, numbers: Array) -> list[str] | None:
    found = [source.row_names(int(number), int(number) + 1) for number in numbers]
    return None if not found or found[0] is None else [short_name(names[0]) for names in found if names]


def _mask(model: Any, table: ArrayTable, outliers: Array) -> Array | None:
    """Return which entries are outliers, None for models without any."""
    if not model.formulation_.has_outliers:
        return None
    if math.isfinite(getattr(model, "noise_", math.nan)):
        return np.asarray(model.outlier_mask(table))
    return np.asarray(outliers != 0)


def short_name(name: Any) -> str:
    """Return a name in at most so many letters, which can be written to a file.

    >>> short_name("a" * 1000)[-3:], short_name("\\ud800")
    ('aa…', '?')
    """
    text = str(name).encode(errors="replace").decode()
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _size(model: Any, rows: RowParts) -> str:
    """Say how large the model is, and how many rows the report looks at."""
    total = in_groups(rows.total)
    seen = f"{in_groups(len(rows.numbers))} of {total}" if rows.is_sample else total
    return f"{size_in_words(model)}; {seen} row{'s' * (rows.total != 1)} in this report"


def _answer(model: Any) -> dict[str, float]:
    """Return where on the charts of convergence the answer of the fit is."""
    seconds = model.history_["seconds"]
    return {
        "passes": float(model.n_passes_),
        "seconds": float(seconds[-1]) if seconds else math.nan,
        "objective": float(model.objective_),
        "relative_stationarity": float(model.relative_stationarity_),
    }


def _about(kind: type) -> str:
    """Return the first sentence of the documentation of a model, without what stands in parentheses."""
    first = (inspect.getdoc(kind) or "A matrix factorization.").partition("\n")[0]
    return re.sub(r" \([^)]*\)", "", first)


def _settings(model: Any) -> list[Setting]:
    settings = []
    for name, parameter in resolved_parameters(model).items():
        found = resolved_words(model, name, parameter)
        is_default = parameter.is_default and found is None
        settings.append(Setting(name, value_in_words(parameter.given), found, is_default))
    return settings
