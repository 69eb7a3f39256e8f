"""The mask of outliers: entries far from the low-rank part, measured by the estimated noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from vrmf.arrays import Array
from vrmf.checks import real_number
from vrmf.estimators.base import AbstractFactorizer
from vrmf.estimators.data import is_stream
from vrmf.estimators.row_functions import RowFunctions
from vrmf.recovery.family import UNSHRUNK
from vrmf.recovery.progress import PROGRESS, Progress
from vrmf.terms import Ridge

#: Without noise the limit for outliers is at the level of rounding, and is raised by this factor.
NO_NOISE = 10.0


class OutlierMasks(AbstractFactorizer):
    """``outlier_mask``, for estimators that estimate the noise."""

    noise_: float

    def outlier_mask(self, X: Any, false_alarms: float = 1e-3) -> Any:
        """Return which entries of ``X`` are outliers: those with |x − L| > z · ``noise_``.

        z is such that normal noise exceeds it in the share ``false_alarms`` of entries. L is without
        shrinkage, unless a fit without it had run away. For a dask array the mask is lazy, for an iterator
        of batches there is an iterator of masks.
        """
        model, reach = self._for_mask(false_alarms)
        if is_stream(X):
            return self._each(lambda batch: self.outlier_mask(batch, false_alarms), X)
        return model._of_rows(X, RowFunctions.distances, [self.n_features_in_])[0] > reach

    def mask_blocks(self, X: Any, false_alarms: float = 1e-3) -> Iterator[Array]:
        """Yield what :meth:`outlier_mask` returns, block by block, so that it need not be stored."""
        model, reach = self._for_mask(false_alarms)
        return (distances > reach for distances in model._blocks(X, RowFunctions.distances))

    def _for_mask(self, false_alarms: float) -> tuple[Self, float]:
        """Return a model without shrinkage, and the distance beyond which an entry is an outlier."""
        check_is_fitted(self)
        if math.isnan(getattr(self, "noise_", math.nan)):
            raise ValueError(
                "The noise of this model is not known: there was no time for it, or an earlier version has "
                "saved it. Fit it anew."
            )
        share = real_number("false_alarms", false_alarms, low=0, strict=True)
        if share >= 1:
            raise ValueError(f"`false_alarms` is {share}. Use a share below 1, such as 0.001.")
        model, code = copy.copy(self), self.formulation_.code
        progress = self._progress_so_far()
        is_final = progress is not None and (progress.has_run_away or progress.is_unshrunk)
        if isinstance(code, Ridge) and not is_final:
            model.formulation_ = replace(self.formulation_, code=Ridge(UNSHRUNK * code.weight))
        return model, self._reach(float(norm.isf(share / 2)), progress)

    def _progress_so_far(self) -> Progress | None:
        """Return how far the path has come; None for models of earlier versions."""
        return None if self.stream_ is None else self.stream_.weights.get(PROGRESS)

    def _reach(self, z: float, progress: Progress | None) -> float:
        """Return the distance that noise exceeds as rarely as a normal variable exceeds z."""
        normal = z * self.noise_
        if progress is None:
            return normal
        if progress.quantum:
            # Rounding is off by half a step at most. The rest is noise, and the error of the fit.
            (k, d), n = self.components_.shape, self.n_samples_seen_
            share = min(1.0, k * (n + d - k) / (n * d)) if k < min(n, d) else 1.0
            rest = self.noise_**2 - progress.quantum**2 / 12 * (1 - share)
            return min(normal, 0.5 * progress.quantum + z * math.sqrt(max(rest, 0.0)))
        # Without noise distances show how exact the fit is.
        return NO_NOISE * normal if self.noise_ <= progress.least else normal
