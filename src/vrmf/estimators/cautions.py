"""What a report warns of, in words that say what to do.

One function for each sentence: it returns the sentence, or None if it does not apply.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vrmf.arrays import row_norms
from vrmf.estimators.row_figures import RowFigures
from vrmf.report.contents import RowParts
from vrmf.terms import L1, Sum

#: Shares of rows, codes or entries that are many, and few.
MANY, FEW = 0.5, 0.05

#: The share of the variance below which components explain little.
LITTLE = 0.3

#: The share of the energy of codes below which an atom is not used.
UNUSED = 1e-5

#: Kurtosis of residuals beyond which some entries are far from all others. Normal noise has 3.
HEAVY = 30.0

#: Relative stationarity above which a fit is far from finished whatever its tolerance, and how many times
#: its tolerance it may miss without a warning.
UNFINISHED, MISSED = 1e-3, 10.0

#: The error below which a fit is exact for all that matters.
EXACT = 1e-3

#: Features that are named, at most.
MOST_NAMES = 3

Caution = Callable[[Any, RowParts, RowFigures], str | None]


def cautions(model: Any, rows: RowParts, figures: RowFigures) -> list[str]:
    """Return the sentences that apply to a fitted model and some rows."""
    return [told for caution in CAUTIONS if (told := caution(model, rows, figures)) is not None]


def stopped_short(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """A fit that ended far from its tolerance, or of which nothing is known."""
    reached = model.relative_stationarity_
    if math.isnan(reached):
        return (
            "How far from converged the atoms are was not measured: a stream has no pass over all rows, "
            "and a fit may have had no time for one."
        )
    if is_finished(model):
        return None
    remedy = "Decrease tol." if _is_stationary(model) else "Increase max_iter or max_time."
    return (
        f"The fit ended before it was finished ({model.stop_reason_}): one more full step would lower the "
        f"objective by {reached:.1e} of it, and the tolerance is {tolerance_of(model):g}. {remedy}"
    )


def tolerance_of(model: Any) -> float:
    """Return the tolerance of a model, 0 if a user has set none that makes sense."""
    tol = model.tol
    return float(tol) if isinstance(tol, int | float) and 0 < tol < math.inf else 0.0


def is_finished(model: Any) -> bool:
    """Whether a fit ended near its tolerance, if that is not large, or its solver has settled."""
    reached, tol = model.relative_stationarity_, tolerance_of(model)
    if _is_stationary(model):
        return tol <= UNFINISHED
    if model.stop_reason_.startswith("settled"):
        return True
    return bool(reached <= (min(MISSED * tol, UNFINISHED) if tol > 0 else UNFINISHED))


def _is_stationary(model: Any) -> bool:
    return str(model.stop_reason_).startswith("stationary")


def nothing_used(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """All codes are zero."""
    if np.any(rows.codes) or not np.any(rows.original):
        return None
    return (
        "All codes are zero: the components explain nothing of these rows. Either the weights are too "
        "large, or nothing stands out of the noise."
    )


def little_explained(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Components that explain little of what are no outliers."""
    if figures.explained >= LITTLE or figures.nonzero_share >= MANY or not np.any(rows.codes):
        return None
    if figures.explained < 0:
        return (
            "The components fit these rows worse than their mean row would. Check that the rows are of the "
            "same kind and scale as those of the fit."
        )
    return (
        f"The components explain {figures.explained:.0%} of the variance of these rows. There may be more "
        "components, the weights may be too large, or there is little structure: vrmf.suggest looks for it."
    )


def unused_atoms(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Atoms that hardly any code uses."""
    energy = np.sum(np.square(rows.codes, dtype=np.float64), axis=0) * row_norms(model.components_) ** 2
    unused = int(np.sum(energy <= UNUSED * np.sum(energy)))
    if not unused or not np.any(rows.codes):
        return None
    who = "1 atom is" if unused == 1 else f"{unused} atoms are"
    return f"{who} not used by these rows, of {len(model.components_)}. Fewer components may do."


def as_many_as_data(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """As many atoms as features or rows, without sparse codes: any data would be fitted."""
    k, d = model.components_.shape
    if (k < d or _is_sparse(model)) and k < model.n_samples_seen_:
        return None
    side = f"{d} features" if k >= d else f"{model.n_samples_seen_} rows"
    return f"There are {k} components for {side}: so many fit any data, so that a good fit says nothing."


def too_large_a_weight(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Rows whose codes are all zero, under a penalty that makes codes sparse."""
    empty = float(np.mean(~np.any(rows.codes, axis=1) & np.any(rows.original, axis=1)))
    if not FEW < empty < 1 or not _is_sparse(model):
        return None
    return f"The codes of {empty:.0%} of the rows are all zero: the weight of codes (alpha) is large."


def too_small_a_weight(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Codes without zeros, under a penalty that is to make them sparse."""
    share = float(np.mean(rows.codes != 0))
    if not _is_sparse(model) or share < 0.9 or len(model.components_) < 5:
        return None
    return (
        f"{share:.0%} of the codes are nonzero, so they are not sparse. If they are to be, use a larger "
        "weight (alpha)."
    )


def too_many_outliers(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Outliers that take most entries."""
    share = max(figures.nonzero_share, figures.outlier_share or 0.0)
    if share < MANY:
        return None
    return (
        f"The outliers take {share:.0%} of the entries, more than can be told from the rest. Use a larger "
        "outlier_alpha, or more components."
    )


def crowded_features(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Features of which most entries are outliers."""
    if not figures.crowded or (figures.outlier_share or 0.0) > MANY:
        return None
    names = getattr(model, "feature_names_in_", None)
    shown = [str(i) if names is None else repr(str(names[i])) for i in figures.crowded[:MOST_NAMES]]
    more = f" and {len(figures.crowded) - len(shown)} more" if len(figures.crowded) > len(shown) else ""
    return (
        f"Most entries of feature {', '.join(shown)}{more} are outliers. Its scale may be unlike that of "
        "the others: scale features first, or leave it out."
    )


def one_main_feature(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """One feature with nearly all of the variance."""
    place, share = figures.main_feature
    if share < 0.95 or rows.original.shape[1] < 5:
        return None
    names = getattr(model, "feature_names_in_", None)
    name = str(place) if names is None else repr(str(names[place]))
    return (
        f"Feature {name} has {share:.0%} of the variance, so that the others hardly count. Scale features "
        "first, as StandardScaler of scikit-learn does."
    )


def missed_outliers(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """Residuals of which a few are far from the others, although there are hardly any outliers."""
    squares = np.square(rows.residual, dtype=np.float64)
    scale = float(np.mean(squares))
    if (
        figures.nonzero_share > 0.001
        or figures.error < EXACT
        or float(np.mean((squares / scale) ** 2)) < HEAVY
    ):
        return None
    told = "A few entries are much farther from the fit than all others. If the fit is to follow them, use "
    told += "more components, or less smoothing. If they are wrong, "
    if rows.outliers is None:
        return f"{told}RobustPCA or RobustNMF would set them apart."
    return f"{told}a smaller outlier_alpha would set them apart."


def rank_at_its_limit(model: Any, rows: RowParts, figures: RowFigures) -> str | None:
    """A rank that is the largest allowed one."""
    rank, most = getattr(model, "rank_", None), model.n_components
    if rank is None or not hasattr(model, "noise_"):
        return None
    half = min(model.n_samples_seen_, model.n_features_in_) // 2
    if most is None and rank >= max(1, half):
        return (
            f"The rank has reached {rank}, half of the smaller side of the data: they are hardly of low "
            "rank with few outliers."
        )
    has_chosen = most != inspect.signature(type(model)).parameters["n_components"].default
    if not isinstance(most, int) or rank < most or has_chosen:
        return None
    return f"The rank is {rank}, the largest that n_components allows. There may be more components."


CAUTIONS: tuple[Caution, ...] = (
    stopped_short,
    nothing_used,
    little_explained,
    unused_atoms,
    as_many_as_data,
    too_large_a_weight,
    too_small_a_weight,
    too_many_outliers,
    crowded_features,
    one_main_feature,
    missed_outliers,
    rank_at_its_limit,
)


def _is_sparse(model: Any) -> bool:
    """Whether a penalty on codes makes single entries zero."""
    code = model.formulation_.code
    parts = code.terms if isinstance(code, Sum) else (code,)
    return any(isinstance(part, L1) for part in parts)
