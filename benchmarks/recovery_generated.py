"""Recovery of generated data: without noise, at its limits, with noise, and of the paper's data."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

import vrmf
from benchmarks.common import synth
from benchmarks.recovery_convex import SLOW_GROWTH, pcp, stable_pcp, stable_weights
from benchmarks.recovery_data import mixture
from benchmarks.recovery_runs import SEEDS, Cases, Found, timed
from experiments.paper.figures import expressed_variance

#: Of the part phase: n = d, ranks as shares of it, shares of errors, and the most seconds of a fit.
PHASE_SIZE = 400
PHASE_RANKS = np.linspace(0.02, 0.3, 8)
PHASE_ERRORS = np.linspace(0.02, 0.4, 8)
PHASE_SECONDS = 60


# ------------------------------------------------------------------ without noise


def exact_cases() -> Cases:
    """Return fits at three sizes; PCP has one seed at the largest."""
    cases: Cases = {}
    for n in (500, 1000, 2000):
        for share in (0.05, 0.1):
            for seed in SEEDS:
                key, place = f"n={n}, errors {share:.0%}, seed {seed}", (n, share, seed)
                cases[f"{key}, ours"] = partial(exact_ours, *place)
                if n < 2000 or seed == 0:
                    cases[f"{key}, PCP"] = partial(exact_pcp, *place)
    return cases


def exact_ours(n: int, share: float, seed: int) -> Found:
    """Return what our fit finds."""
    made = mixture(n, n, n // 20, share, seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(made.X))
    return {
        "n": n,
        "errors": share,
        "method": "ours",
        "error": made.error(model.decompose(made.X)[0]),
        "rank": model.rank_,
        "mask": made.right(model.outlier_mask(made.X)),
        "passes": model.n_passes_,
        "seconds": seconds,
        "reason": model.stop_reason_,
    }


def exact_pcp(n: int, share: float, seed: int) -> Found:
    """Return what PCP finds, on one thread: a second one hardly speeds up the decomposition."""
    made = mixture(n, n, n // 20, share, seed)
    with threadpool_limits(1):
        (L, rank), seconds = timed(lambda: pcp(made.X))
    error = made.error(L)
    return {"n": n, "errors": share, "method": "PCP", "error": error, "rank": rank, "seconds": seconds}


# ------------------------------------------------------------------ where recovery succeeds


def phase_cases() -> Cases:
    """Return three trials of each cell."""
    return {
        f"rank {rank:.2f}, errors {share:.3f}, seed {seed}": partial(phase_trial, rank, share, seed)
        for rank in PHASE_RANKS.tolist()
        for share in PHASE_ERRORS.tolist()
        for seed in SEEDS
    }


def phase_trial(rank_share: float, share: float, seed: int) -> Found:
    """Return the errors of our fit and of PCP."""
    n, rank = PHASE_SIZE, round(rank_share * PHASE_SIZE)
    made = mixture(n, n, rank, share, seed)
    model = vrmf.RobustPCA(random_state=seed, n_jobs=1, max_time=PHASE_SECONDS)
    _, seconds = timed(lambda: model.fit(made.X))
    (L, pcp_rank), pcp_seconds = timed(lambda: pcp(made.X, growth=SLOW_GROWTH))
    return {
        "rank share": rank_share,
        "errors": share,
        "rank": rank,
        "ours": made.error(model.decompose(made.X)[0]),
        "PCP": made.error(L),
        "ours, rank": model.rank_,
        "PCP, rank": pcp_rank,
        "ours, seconds": seconds,
        "PCP, seconds": pcp_seconds,
        "reason": model.stop_reason_,
    }


# ------------------------------------------------------------------ noise


def noise_cases() -> Cases:
    """Return two problems, each with two levels of noise."""
    return {
        f"n={n}, rank {rank}, noise {noise:.0%}, seed {seed}": partial(noisy, n, rank, noise, seed)
        for n, rank in ((500, 25), (400, 10))
        for noise in (0.01, 0.05)
        for seed in SEEDS
    }


def noisy(n: int, rank: int, noise: float, seed: int) -> Found:
    """Return our error and that of stable PCP with the true level of noise."""
    made = mixture(n, n, rank, 0.1, seed, noise)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(made.X))
    L, stable_seconds = timed(lambda: stable_pcp(made.X, *stable_weights((n, n), made.noise)))
    ours, stable = made.error(model.decompose(made.X)[0]), made.error(L)
    return {
        "n": n,
        "rank": rank,
        "noise": noise,
        "error": ours,
        "stable PCP, error": stable,
        "ratio": ours / stable,
        "found rank": model.rank_,
        "noise, found over true": model.noise_ / made.noise,
        "seconds": seconds,
        "stable PCP, seconds": stable_seconds,
    }


# ------------------------------------------------------------------ the paper's data


def synth_cases() -> Cases:
    """Return the paper's data with two shares of outliers."""
    return {
        f"outliers {share:.0%}, seed {seed}": partial(recovered_synth, share, seed)
        for share in (0.1, 0.3)
        for seed in SEEDS
    }


def recovered_synth(share: float, seed: int) -> Found:
    """Return the variance that the leading ten directions express."""
    X, dictionary = synth(10_000, share, seed=seed)
    model, seconds = timed(lambda: vrmf.RobustPCA(random_state=seed).fit(X))
    leading = np.linalg.svd(model.components_, full_matrices=False)[2][: len(dictionary)]
    expressed = expressed_variance(leading.T, scipy.linalg.orth(dictionary.T))
    return {
        "outliers": share,
        "expressed": expressed,
        "rank": model.rank_,
        "passes": model.n_passes_,
        "seconds": seconds,
    }
