"""What is measured of the rows before a model is suggested.

>>> rng = np.random.default_rng(0)
>>> X = rng.random((200, 4)) @ rng.random((4, 30))
>>> found = Findings.of(SampleRows.of(X), rng)
>>> found.rank, found.negative_share, found.has_outliers
(4, 0.0, False)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vrmf.arrays import Array
from vrmf.suggesting.atoms import atom_count
from vrmf.suggesting.identifiers import likely_identifiers
from vrmf.suggesting.outliers import FAR, RobustFit
from vrmf.suggesting.rank import Decomposition, rank_of_counts
from vrmf.suggesting.sample import SampleRows
from vrmf.suggesting.spikes import completed, without_spikes
from vrmf.suggesting.spreads import mean_share, of_even_noise, quartile_distances, spread_ratio
from vrmf.suggesting.structure import likely_image_shape, smoothness, sparseness

#: Features are uneven if their spreads, without a tenth of them at either end, differ by more.
UNEVEN = 10.0

#: If more than this share of the entries is 0, outliers cannot be told from other nonzero entries: too few
#: entries show the noise, which is cut off at 0.
MANY_ZEROS = 0.25

#: Singular values decrease slowly if more than this share of them stands out, without a gap after the last.
SLOW_SHARE = 0.2

#: There is a gap if the ratio of two singular values is larger than this.
GAP = 1.15

#: They also decrease slowly if more than this share stands out while half as many explain most of the
#: variance.
LARGE_SHARE = 0.3

#: A strict fit is used if so many times more entries are far from it than in between.
STRICT_GAP = 8.0

#: The share of the variance that components must explain where singular values decrease slowly.
MOST_VARIANCE = 0.9

#: Codes are sparse beyond this.
SPARSE = 0.1

#: Negative entries are of the size of the noise if none is below so many standard deviations.
NEGATIVE_NOISE = 6.0

#: The fit without outliers is nonnegative if at most this share of it is clearly negative.
CLEARLY_NEGATIVE = 0.01

#: Some of the findings, by name.
Facts = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """The measured facts. Shares are of the entries of the rows that were read."""

    n_samples: int  #: rows of the data
    n_features: int
    rows_read: int
    missing_share: float  #: NaN or infinite
    negative_share: float
    zero_share: float
    whole_numbers: bool  #: whether all entries are whole numbers
    constant_features: int
    scale_ratio: float  #: of the spreads of features
    mean_share: float  #: of the sum of squares that the mean row explains
    rank: int  #: components that stand out of the noise
    rank_about_mean: int  #: the same once the mean row is subtracted
    decreases_slowly: bool  #: whether there is no gap after the last of them
    components_for_most: int  #: components that explain 90 % of the variance
    noise: float  #: standard deviation of what a robust low-rank fit leaves
    noise_share: float  #: the same over the standard deviation of entries about the mean row
    outlier_share: float  #: entries more than six times the noise from the fit
    spike_share: float  #: entries so far beyond all others that they were left out first
    tail_share: float  #: entries that are between 3.5 and 6 times the noise from it
    has_outliers: bool  #: whether entries are either near the fit or far from it
    nonnegative_fit: bool  #: whether the robust fit has hardly any negative entries
    negatives_are_noise: bool  #: whether negative entries are few and of the size of the noise
    common_share: float  #: of the sum of squares of the robust fit that its mean row explains
    smoothness: float  #: along the features, from 0 to 1
    image_shape: tuple[int, int] | None  #: stored with the data, or guessed
    image_is_known: bool  #: whether it was stored with the data
    sparseness: float  #: of codes after the best rotation; 0 for normal ones
    identifiers: tuple[str, ...] = ()  #: columns that look as if they identified rows
    identifier_share: float = 0.0  #: of the variance that they have
    noise_grows: bool = False  #: whether what a robust low-rank fit leaves grows with the fit
    n_atoms: int | None = None  #: of a dictionary with more atoms than features, where one was tried

    @classmethod
    def of(cls, sample: SampleRows, rng: np.random.Generator) -> Findings:
        """Measure a sample of rows."""
        rows, block = sample.rows, completed(*sample.block(rng), rng)
        found = cls(**_simple_facts(sample), **_order_facts(sample), **_EMPTY)
        block, share = without_spikes(block, found.have_counting_noise, rng)
        found = replace(found, spike_share=share)
        is_even = found.scale_ratio <= UNEVEN or found.is_ordered or found.zero_share > MANY_ZEROS
        even = block if is_even else of_even_noise(block, rng)
        found = replace(found, scale_ratio=1.0 if even is block else found.scale_ratio)
        found = replace(found, **_spectral_facts(found, even, rng))
        found = replace(found, **_fit_facts(found, even, rng))
        found = replace(found, **_negative_facts(found, rows))
        return replace(found, n_atoms=atom_count(rows, rng) if found.may_be_overcomplete else None)

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative."""
        return self.negative_share == 0

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the features means something: they are points of a curve, or pixels."""
        return self.image_shape is not None or self.smoothness > 0.85

    @property
    def may_be_overcomplete(self) -> bool:
        """Whether rows may be sums of a few of more atoms than there are features."""
        is_plain = not (self.is_nonnegative or self.negatives_are_noise or self.has_outliers)
        return is_plain and self.scale_ratio == 1 and self.decreases_slowly and self.sparseness > SPARSE

    @property
    def are_counts(self) -> bool:
        """Whether entries are nonnegative whole numbers."""
        return self.whole_numbers and self.is_nonnegative

    @property
    def have_counting_noise(self) -> bool:
        """Whether the noise is likely to grow with the mean, as that of counts does."""
        return self.are_counts and self.image_shape is None


#: Findings before they are measured.
_EMPTY: Facts = {
    "rank": 0,
    "rank_about_mean": 0,
    "decreases_slowly": False,
    "components_for_most": 1,
    "noise": 0.0,
    "noise_share": 0.0,
    "outlier_share": 0.0,
    "spike_share": 0.0,
    "tail_share": 0.0,
    "has_outliers": False,
    "nonnegative_fit": False,
    "negatives_are_noise": False,
    "common_share": 0.0,
    "sparseness": 0.0,
}


def _simple_facts(sample: SampleRows) -> Facts:
    """Return what is found by counting and comparing entries."""
    rows, seen = sample.rows, sample.rows[~sample.is_missing]
    spreads = np.std(rows, axis=0)
    largest = max(float(np.max(np.abs(rows))), 1e-300)
    is_constant = spreads <= 1e-10 * largest
    varying = rows[:, ~is_constant]
    identifiers, share = likely_identifiers(rows, sample.feature_names)
    return {
        "identifiers": identifiers,
        "identifier_share": share,
        "n_samples": sample.n_samples,
        "n_features": rows.shape[1],
        "rows_read": len(rows),
        "missing_share": sample.missing_share,
        "negative_share": float(np.mean(seen < 0)) if len(seen) else 0.0,
        "zero_share": float(np.mean(seen == 0)) if len(seen) else 0.0,
        "whole_numbers": bool(len(seen) and np.all(seen == np.round(seen))),
        "constant_features": int(np.sum(is_constant)),
        "scale_ratio": min(spread_ratio(spreads[~is_constant]), spread_ratio(quartile_distances(varying))),
        "mean_share": mean_share(rows),
    }


def _order_facts(sample: SampleRows) -> Facts:
    """Return whether features have an order that means something."""
    known = sample.image_shape
    return {
        "smoothness": smoothness(sample.rows),
        "image_shape": known or likely_image_shape(sample.rows),
        "image_is_known": known is not None,
    }


def _spectral_facts(found: Findings, block: Array, rng: np.random.Generator) -> Facts:
    """Return how many components stand out of the rows as they are, and how singular values decrease."""
    whole, about_mean = Decomposition.of(block), Decomposition.about_mean(block)
    if found.have_counting_noise:
        rank = rank_of_counts(block)
        about = min(max(rank - 1, 0), about_mean.rank(rng))
    else:
        rank, about = whole.rank(rng), about_mean.rank(rng)
    most = about_mean.count_for(MOST_VARIANCE)
    slow = about > SLOW_SHARE * min(block.shape) and about_mean.gap(about) < GAP
    slow |= about > max(LARGE_SHARE * min(block.shape), 2 * most)
    return {
        "rank": rank,
        "rank_about_mean": about,
        "decreases_slowly": bool(slow),
        "components_for_most": most,
        "sparseness": _sparseness(about_mean, about if not slow else about_mean.full_rank, rng),
    }


def _sparseness(about_mean: Decomposition, rank: int, rng: np.random.Generator) -> float:
    return sparseness(about_mean.U[:, :rank] * about_mean.values[:rank], rng) if rank >= 2 else 0.0


def _fit_facts(found: Findings, block: Array, rng: np.random.Generator) -> Facts:
    """Return what is found by robust low-rank fits."""
    has_spiked_counts = found.spike_share > 0 and found.have_counting_noise
    if min(block.shape) < 4 or found.zero_share > MANY_ZEROS or has_spiked_counts:
        return _spike_facts(found, block) if found.spike_share else {}
    fit = RobustFit.of(block, rng)
    has_outliers, rank, about = fit.has_gross_outliers, found.rank, found.rank_about_mean
    if found.decreases_slowly and not found.spike_share:
        strict = RobustFit.strict(block, rng)
        if strict.has_gross_outliers and strict.far_share > STRICT_GAP * strict.between_share:
            fit, has_outliers, rank, about = strict, True, strict.rank, strict.rank
    elif has_outliers:
        rank = max(rank, fit.rank)
    deviation = float(np.std(block - np.mean(block, axis=0)))
    clearly = fit.low_rank < -FAR * fit.noise
    return {
        "rank": rank,
        "rank_about_mean": about,
        "noise": fit.noise,
        "noise_share": fit.noise / deviation if deviation else 0.0,
        "outlier_share": found.spike_share + fit.far_share * (has_outliers or not found.spike_share),
        "tail_share": fit.between_share,
        "noise_grows": fit.noise_grows,
        "has_outliers": has_outliers or found.spike_share > 0,
        "decreases_slowly": found.decreases_slowly and not has_outliers,
        "nonnegative_fit": bool(np.mean(clearly) < CLEARLY_NEGATIVE),
        "common_share": mean_share(fit.low_rank),
    }


def _spike_facts(found: Findings, block: Array) -> Facts:
    """Return what is known of outliers where no robust fit is made."""
    return {
        "outlier_share": found.spike_share,
        "has_outliers": True,
        "nonnegative_fit": found.is_nonnegative,
        "common_share": mean_share(block),
    }


def _negative_facts(found: Findings, rows: Array) -> Facts:
    """Return whether negative entries are no more than noise."""
    if found.is_nonnegative or found.scale_ratio > 1 or found.rank_about_mean == 0:
        return {}
    lost = float(np.sum(np.minimum(rows, 0) ** 2) / np.sum(rows**2))
    small = float(np.min(rows)) > -NEGATIVE_NOISE * found.noise
    return {"negatives_are_noise": bool(small and lost < CLEARLY_NEGATIVE)}
