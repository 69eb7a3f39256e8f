"""What a report warns of, in words that say what to do.

One function for each sentence: it returns the sentence, or None if it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vrmf.report.contents import RowParts
from vrmf.terms import L1, GroupL2, Sum

#: Shares of rows, codes or entries that are many, and few.
MANY, FEW = 0.5, 0.05

#: Shares of the variance: less is hardly anything.
HARDLY = 0.1

#: Kurtosis of residuals beyond which some entries are far from all others. Normal noise has 3.
HEAVY = 30.0

Caution = Callable[[Any, RowParts], str | None]


def cautions(model: Any, rows: RowParts, explained: float) -> list[str]:
    """Return the sentences that apply to a fitted model and some rows."""
    found = [told for caution in CAUTIONS if (told := caution(model, rows)) is not None]
    if explained < HARDLY and np.any(rows.codes):
        found.append(
            f"The model explains {max(explained, 0):.1%} of the variance of these rows. Use more atoms or "
            "smaller weights, or check that the rows are of the same kind as those of the fit."
        )
    return found


def stopped_short(model: Any, rows: RowParts) -> str | None:
    """A fit that ended for another reason than that it was stationary."""
    reached, tol = model.relative_stationarity_, float(model.tol)
    if math.isnan(reached):
        return "How stationary the dictionary is was not measured: there was no time for it."
    if tol > 0 and reached > tol:
        return (
            f"The fit ended before its dictionary was stationary ({model.stop_reason_}): its relative "
            f"stationarity is {reached:.1e}, and the tolerance {tol:g}. Increase max_iter or max_time."
        )
    return None


def nothing_used(model: Any, rows: RowParts) -> str | None:
    """All codes are zero."""
    if np.any(rows.codes):
        return None
    return "All codes are zero: the atoms explain nothing of these rows. Use smaller weights."


def unused_atoms(model: Any, rows: RowParts) -> str | None:
    """Atoms that no row uses."""
    unused = int(np.sum(~np.any(rows.codes, axis=0)))
    if not unused or not np.any(rows.codes):
        return None
    who = "1 atom is" if unused == 1 else f"{unused} atoms are"
    return (
        f"{who} not used by any of these rows, of {len(model.components_)}. Fewer components would do, or "
        "more rows are needed."
    )


def too_large_a_weight(model: Any, rows: RowParts) -> str | None:
    """Rows whose codes are all zero, under a penalty that makes codes sparse."""
    empty = float(np.mean(~np.any(rows.codes, axis=1) & np.any(rows.original, axis=1)))
    if not FEW < empty < 1 or not _is_sparse(model):
        return None
    return (
        f"{empty:.0%} of the rows have only zeros as their code: the weight of the codes (alpha) is large."
    )


def too_small_a_weight(model: Any, rows: RowParts) -> str | None:
    """Codes without zeros, under a penalty that is to make them sparse."""
    share = float(np.mean(rows.codes != 0))
    if not _is_sparse(model) or share < 0.9 or len(model.components_) < 5:
        return None
    return (
        f"{share:.0%} of the codes are nonzero, so they are not sparse. If they are to be, use a larger "
        "weight (alpha)."
    )


def too_many_outliers(model: Any, rows: RowParts) -> str | None:
    """Outliers that take most entries."""
    if rows.outliers is None:
        return None
    marked = rows.outliers != 0 if rows.mask is None else rows.mask
    share = float(np.mean(marked))
    if share < MANY:
        return None
    return (
        f"{share:.0%} of the entries are outliers, more than can be told from the rest. Use a larger "
        "outlier_alpha, or more components."
    )


def missed_outliers(model: Any, rows: RowParts) -> str | None:
    """Residuals of which a few are far from the others, although there are hardly any outliers."""
    share = 0.0 if rows.outliers is None else float(np.mean(rows.outliers != 0))
    squares = np.square(rows.residual, dtype=np.float64)
    variance = float(np.mean(squares))
    if share > 0.001 or variance == 0 or float(np.mean(squares**2)) < HEAVY * variance**2:
        return None
    told = "A few entries are much farther from the reconstruction than all others."
    if rows.outliers is None:
        return f"{told} A model with outliers, such as RobustPCA or RobustNMF, would set them apart."
    return f"{told} A smaller outlier_alpha would set them apart as outliers."


def rank_at_its_limit(model: Any, rows: RowParts) -> str | None:
    """A rank that is the largest allowed one."""
    rank, most = getattr(model, "rank_", None), model.n_components
    if rank is None or most is None or rank < most or not hasattr(model, "noise_"):
        return None
    return f"The rank is {rank}, the largest that n_components allows. There may be more components."


CAUTIONS: tuple[Caution, ...] = (
    stopped_short,
    nothing_used,
    unused_atoms,
    too_large_a_weight,
    too_small_a_weight,
    too_many_outliers,
    missed_outliers,
    rank_at_its_limit,
)


def _is_sparse(model: Any) -> bool:
    """Whether a penalty on codes makes them sparse."""
    code = model.formulation_.code
    parts = code.terms if isinstance(code, Sum) else (code,)
    return any(isinstance(part, L1 | GroupL2) for part in parts)
