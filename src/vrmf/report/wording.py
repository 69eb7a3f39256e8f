"""Formulations as formulas, and what each of their terms does, in words.

>>> from vrmf.formulations import robust_pca
>>> for formula, meaning in formula_of(robust_pca(2.0, 0.5, 100)):
...     print(formula, "-", meaning)
½‖x − hD − r‖² - squared error of a row x
+ (2/2)·‖h‖² - keeps codes h small
+ 0.5·‖r‖₁ - few entries of the outliers r are nonzero
+ (0.02/2)·‖D‖² - keeps atoms D small
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from vrmf.formulations import Formulation
from vrmf.terms import (
    L1,
    Absent,
    AbstractTerm,
    Box,
    Free,
    GroupL2,
    LowRankQuadratic,
    MaxColumnNorm,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    UnitBall,
)

#: What the rows are on which a term acts: many of them, and one.
CODES, OUTLIERS, ATOMS = ("codes h", "h"), ("outliers r", "r"), ("atoms D", "D")

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

Rows = tuple[str, str]
Said = tuple[str, str]


def formula_of(formulation: Formulation) -> list[Said]:
    """Return the parts of the objective for a row, each with what it does."""
    error = "½‖x − hD − r‖²" if formulation.has_outliers else "½‖x − hD‖²"
    found: list[Said] = [(error, "squared error of a row x")]
    for term, rows in (
        (formulation.code, CODES),
        (formulation.outliers, OUTLIERS),
        (formulation.dictionary, ATOMS),
    ):
        found += told(term, rows)
    return sorted(found, key=_is_constraint)


def _is_constraint(said: Said) -> bool:
    return not said[0].startswith(("½", "+"))


def told(term: AbstractTerm, rows: Rows) -> Iterator[Said]:
    """Yield the parts of a term with what they do."""
    for part in term.terms if isinstance(term, Sum) else (term,):
        said = in_words(part, *rows)
        if said is not None:
            yield said


@singledispatch
def in_words(term: AbstractTerm, many: str, z: str) -> Said | None:
    """Return the formula of a term of rows z, and what it does to them; None if that is nothing."""
    return f"+ {type(term).__name__}({z})", f"a penalty or constraint of your own on the {many}"


@in_words.register(Absent)
@in_words.register(Free)
def _nothing(term: AbstractTerm, many: str, z: str) -> None:
    return None


@in_words.register
def _l1(term: L1, many: str, z: str) -> Said:
    what = f"few entries of the {many} are nonzero"
    return f"+ {number(term.weight)}·‖{z}‖₁", what


@in_words.register
def _ridge(term: Ridge, many: str, z: str) -> Said:
    return f"+ ({number(term.weight)}/2)·‖{z}‖²", f"keeps {many} small"


@in_words.register
def _groups(term: GroupL2, many: str, z: str) -> Said:
    return f"+ Σ_g {_weights(term)}·‖{z}_g‖", f"groups of entries of the {many} are zero together"


def _weights(term: GroupL2) -> str:
    weights = set() if term.weights is None else {float(weight) for weight in term.weights}
    return number(weights.pop()) if len(weights) == 1 else "w_g"


@in_words.register
def _columns(term: MaxColumnNorm, many: str, z: str) -> Said:
    return f"+ ({number(term.weight)}/2)·max_j ‖{z}_j‖²", f"bounds the largest column of the {many}"


@in_words.register
def _quadratic(term: Quadratic, many: str, z: str) -> Said:
    return f"+ ({number(term.weight)}/2)·tr({z} Q {z}ᵀ)", f"makes {many} smooth, or what the matrix Q says"


@in_words.register
def _low_rank_quadratic(term: LowRankQuadratic, many: str, z: str) -> Said:
    return f"+ ({number(term.weight)}/2)·tr({z} Q {z}ᵀ)", f"{many} along the basis cost little"


@in_words.register
def _nonnegative(term: NonNegative, many: str, z: str) -> Said:
    return f"{z} ≥ 0", f"{many} have no negative entries"


@in_words.register
def _box(term: Box, many: str, z: str) -> Said:
    return f"{number(term.low)} ≤ {z} ≤ {number(term.high)}", f"entries of the {many} are bounded"


@in_words.register
def _ball(term: UnitBall, many: str, z: str) -> Said:
    row = "d" if z == "D" else z
    return f"‖{row}‖ ≤ 1", f"{many} have a norm of at most 1"


@in_words.register
def _simplex(term: Simplex, many: str, z: str) -> Said:
    row = "d" if z == "D" else z
    return f"{row} ≥ 0, Σ {row}_j = 1", f"{many} have no negative entries and sum to 1"


def number(value: float) -> str:
    """Return a number in a few digits.

    >>> number(0.123456), number(2.0), number(1.5e-7)
    ('0.1235', '2', '1.5·10⁻⁷')
    """
    digits, _, power = f"{value:.4g}".partition("e")
    return f"{digits}·10{str(int(power)).translate(SUPERSCRIPTS)}" if power else digits


def in_groups(count: int) -> str:
    """Return a whole number with a thin space before each three digits.

    >>> in_groups(200000)
    '200\u2009000'
    """
    return f"{count:,}".replace(",", "\N{THIN SPACE}")
