"""The rules by which findings decide: the first rule that applies chooses the model.

1. Nothing stands out of the noise: NMF with one component, or RobustPCA, and a doubt.
2. Some entries are gross outliers: RobustNMF if the rest is nonnegative and has no common background, else
   RobustPCA.
3. No negative entries, and features that are points of smooth curves: SmoothDictionaryLearning.
4. No negative entries: NMF. If negative entries are only noise, RobustNMF, since NMF takes none.
5. Codes are sparse after the best rotation: DictionaryLearning.
6. Anything else: RobustPCA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vrmf.suggesting.findings import SPARSE, Findings

#: Rows and features below which no number of components can be trusted.
FEW_ROWS, FEW_FEATURES = 10, 6

#: The part of a fit that its mean row explains beyond which there is a common background.
BACKGROUND = 0.95

#: Curves are at least this smooth.
SMOOTH = 0.85

#: Codes are sparse enough beyond this if no small number of components explains the rows.
A_LITTLE_SPARSE = 0.03

#: Beyond this part of a row the mean of signed data is subtracted before sparse codes are sought.
LARGE_MEAN = 0.1


@dataclass(frozen=True)
class Choice:
    """A model, and why."""

    model: str
    n_components: int | None
    reasons: tuple[str, ...]
    parameters: dict[str, Any] = field(default_factory=dict)


def choose(found: Findings) -> Choice:
    """Return what the first rule says that applies."""
    return next(choice for rule in RULES if (choice := rule(found)) is not None)


def nothing_to_find(found: Findings) -> Choice | None:
    """Rule 1: no component stands out, or too few rows to tell."""
    if found.rank_about_mean > 0 and found.rows_read >= FEW_ROWS:
        return None
    sign = _sign_sentence(found)
    if not found.is_nonnegative:  # a number would be a bound on the rank
        return Choice("robust-pca", None, (sign, "RobustPCA finds the rank itself, should there be one."))
    can_tell = found.rows_read >= FEW_ROWS and found.n_features >= FEW_FEATURES
    why = (
        "The data are enough to tell that there is no second component."
        if can_tell
        else "More than one cannot be told."
    )
    return Choice("nmf", 1, (f"{sign} {why}",))


def gross_outliers(found: Findings) -> Choice | None:
    """Rule 2: a part of the entries is far from a low-rank fit that explains all others."""
    if not found.has_outliers:
        return None
    told = (
        f"About {percent(found.outlier_share)} of the entries are far from a fit of "
        f"{counted(_count(found), 'component')} that explains the others up to noise: they are outliers."
    )
    weights = 'The weights are "auto": they follow the noise.'
    if not found.nonnegative_fit:
        return Choice(
            "robust-pca", None, (told, "The fit has negative entries.", _found_itself(found), weights)
        )
    if found.common_share > BACKGROUND:
        common = "The rows share a background, which changes little: a low-rank part is enough for it."
        return Choice("robust-pca", None, (told, common, _found_itself(found), weights))
    parts = "The fit has no negative entries, so it is a sum of nonnegative parts."
    return Choice("robust-nmf", _count(found), (told, parts, _count_sentence(found), weights))


def smooth_curves(found: Findings) -> Choice | None:
    """Rule 3: nonnegative rows that are smooth curves."""
    if not found.is_nonnegative or found.image_shape is not None or found.smoothness < SMOOTH:
        return None
    count, told = _count(found), _count_sentence(found)
    curves = "Neighbouring features change together, so rows are curves, and atoms should be smooth."
    weights = 'The weights are "auto": the smoothness follows the size of the rows.'
    return Choice("smooth-dictionary-learning", count, (_sign_sentence(found), curves, told, weights))


def nonnegative_parts(found: Findings) -> Choice | None:
    """Rule 4: nonnegative rows."""
    if found.is_nonnegative:
        kind = "They are whole numbers, which are likely to be counts."
        kind = "They are whole numbers." if found.image_shape is not None else kind
        counts = (kind,) if found.are_counts else ()
        weights = 'The weight is "auto": a ridge too small to change the fit.'
        reasons = (_sign_sentence(found), *counts, _count_sentence(found), weights)
        return Choice("nmf", _count(found), reasons)
    if found.negatives_are_noise:
        negative = (
            f"{percent(found.negative_share)} of the entries are negative, but by no more than the noise. "
            "NMF takes no negative entries; RobustNMF does."
        )
        return Choice("robust-nmf", _count(found), (negative, _count_sentence(found)))
    return None


def sparse_codes(found: Findings) -> Choice | None:
    """Rule 5: rows that are sums of a few of the atoms."""
    if found.sparseness < (A_LITTLE_SPARSE if found.decreases_slowly else SPARSE):
        return None
    sparse = "Each row needs only some of the components, once they are rotated: codes are sparse."
    weights = 'The weight is "auto": it shrinks codes by about a tenth.'
    center = {"center": True} if found.mean_share > LARGE_MEAN else {}
    count = found.n_atoms or (found.components_for_most if found.decreases_slowly else found.rank)
    return Choice(
        "dictionary-learning",
        count,
        (_sign_sentence(found), sparse, _count_sentence(found), weights),
        center,
    )


def low_rank(found: Findings) -> Choice:
    """Rule 6: all other data."""
    why = "Codes are not sparse, and entries have both signs, so no more than a low rank is asked for."
    weights = 'The weights are "auto": they follow the noise.'
    return Choice("robust-pca", None, (_sign_sentence(found), why, _found_itself(found), weights))


#: In their order.
RULES: tuple[Callable[[Findings], Choice | None], ...] = (
    nothing_to_find,
    gross_outliers,
    smooth_curves,
    nonnegative_parts,
    sparse_codes,
    low_rank,
)


def _count(found: Findings) -> int:
    """Return the number of components: those that stand out, or those that explain most."""
    return max(1, found.components_for_most if found.decreases_slowly else found.rank)


def _count_sentence(found: Findings) -> str:
    if found.n_atoms is not None:
        return (
            f"More atoms than the {found.n_features} features explain rows better: about {found.n_atoms}."
        )
    if found.decreases_slowly:
        return f"{counted(_count(found), 'component', 'explain')} 90 % of the variance."
    return f"{counted(found.rank, 'component', 'stand')} out of the noise."


def _found_itself(found: Findings) -> str:
    return f"RobustPCA finds the rank itself; here it is about {found.rank}."


def _sign_sentence(found: Findings) -> str:
    if not found.is_nonnegative:
        return f"{percent(found.negative_share)} of the entries are negative."
    if found.rows_read == 1:
        return "The row that was read has no negative entry."
    return f"None of the {found.rows_read} rows that were read has a negative entry."


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return a number of things in words, and what they do.

    >>> counted(1, "component", "explain"), counted(3, "row")
    ('1 component explains', '3 rows')
    """
    is_one = count == 1
    return f"{count} {noun}{'' if is_one else 's'}{verb and f' {verb}'}{'s' if verb and is_one else ''}"


def percent(share: float) -> str:
    """Return a share in words.

    >>> percent(0.0312), percent(0.999)
    ('3.1 %', '100 %')
    """
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
