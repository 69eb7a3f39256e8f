"""How well a model explains some rows, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrmf.arrays import Array
from vrmf.estimators.explained import Explained, Moments
from vrmf.estimators.quality import CodeQuality
from vrmf.report.contents import RowParts


@dataclass(frozen=True, eq=False)
class RowFigures:
    """What a report says of the rows that it looks at."""

    explained: (
        float  #: 1 − Σ‖residual‖² / Σ‖y − mean‖² of y = x − outliers, the part that components explain
    )
    error: float  #: ‖residual‖ / ‖X‖
    outlier_share: float | None  #: of the entries in the mask; None without outliers
    nonzero_share: float  #: of the entries of the outliers
    crowded: tuple[int, ...]  #: features of which most entries are in the mask
    main_feature: tuple[int, float]  #: the one with most of the variance, and its share

    @classmethod
    def of(cls, rows: RowParts) -> RowFigures:
        """Return the figures of some rows and their parts."""
        clean = rows.original if rows.outliers is None else rows.original - rows.outliers
        left = float(np.sum(np.square(rows.residual, dtype=np.float64)))
        size = float(np.sum(np.square(rows.original, dtype=np.float64)))
        dtype = rows.original.dtype
        return cls(
            explained=Explained(left, Moments.of(clean), CodeQuality()).ratio(dtype),
            error=(left / size) ** 0.5 if size else 0.0,
            outlier_share=None if rows.mask is None else float(np.mean(rows.mask)),
            nonzero_share=0.0 if rows.outliers is None else float(np.mean(rows.outliers != 0)),
            crowded=_crowded(rows.mask),
            main_feature=_main_feature(rows.original),
        )


def _crowded(mask: Array | None) -> tuple[int, ...]:
    if mask is None:
        return ()
    return tuple(np.flatnonzero(np.mean(mask, axis=0) > 0.5).tolist())


def _main_feature(X: Array) -> tuple[int, float]:
    variances = np.var(X, axis=0, dtype=np.float64)
    first = int(np.argmax(variances))
    return first, float(variances[first] / (np.sum(variances) or 1.0))
