"""Laws of terms at extreme steps and scales, and of residuals of huge entries."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrmf
from estimator_cases import NAMES, make
from tables import ITERATIVE, TERMS, generator
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.formulations import Formulation, robust_nmf, robust_pca
from vrmf.terms import L1, Absent, AbstractRowTerm, Box, Free, NonNegative, Quadratic, Ridge, UnitBall
from vrmf.terms import chain_laplacian as chain
from vrmf.terms.traits import Canonical

STEPS = (1e-300, 1e-100, 1e-20, 1e-3, 1.0, 1e3, 1e10, 1e20, 1e100, 1e300)
SCALES = (1e-60, 1e-8, 1.0, 1e8, 1e60)


def prox(term: Any, Z: Array, step: float) -> Array:
    """The prox; iterative ones may say that they stopped short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(term.prox(Z, step))


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterative proxes do not converge at all of these steps; their results must be finite and feasible."""
    monkeypatch.setattr("vrmf.terms.douglas_rachford.MAX_ITERATIONS", 300)
    monkeypatch.setattr("vrmf.terms.groups.MAX_ITERATIONS", 3000)


@pytest.mark.slow
@pytest.mark.parametrize("name", TERMS)
def test_the_prox_is_finite_feasible_and_the_best_at_every_step_and_scale(name: str) -> None:
    term, width = TERMS[name]
    rng, exact = generator(name), name not in ITERATIVE
    base, other = rng.normal(size=(2, 3, width))
    for step in STEPS:
        for scale in SCALES:
            Z, Y = scale * base, scale * (base + 0.1 * other)
            P, Q = prox(term, Z, step), prox(term, Y, step)
            assert np.all(np.isfinite(P))
            assert np.isfinite(term.value(P))
            if not exact:
                continue
            assert np.linalg.norm(P - Q) <= np.linalg.norm(Z - Y) * (1 + 1e-7) + 1e-13
            for part in (0.5, 1e-3, -1e-3):
                competitor = prox(term, P + part * (Q - P), 1e-300)
                # ½‖c − z‖² − ½‖p − z‖² + step · (f(c) − f(p)) ≥ 0, in units of scale²
                fit = np.sum((competitor - P) * (competitor + P - 2 * Z)) / 2
                rise = step * (term.value(competitor) - term.value(P))
                curvature = term.smoothness if np.isfinite(term.smoothness) else 0.0
                rounding = (1 + step * curvature) * float(np.sum(P * P))
                size = np.sum(Z * Z) + step * abs(term.value(P)) + rounding + 1e-300
                assert not fit + rise < -1e-7 * size


@pytest.mark.parametrize("name", [name for name in TERMS if name != "user"])
def test_the_prox_in_single_precision_is_finite_at_every_step(name: str) -> None:
    term, width = TERMS[name]
    Z = generator(name).normal(size=(2, width)).astype(np.float32)
    for step in STEPS:
        P = prox(term, Z, step)
        assert P.dtype == np.float32
        assert np.all(np.isfinite(P))


@pytest.mark.parametrize("form", ["sparse", "dense"])
@pytest.mark.parametrize("step", [1e9, 1e16, 1e40, 1e300])
def test_a_huge_step_leaves_only_what_the_quadratic_does_not_see(form: str, step: float) -> None:
    matrix = chain(9)
    term = Quadratic(matrix if form == "sparse" else matrix.toarray(), 3.0)
    Z = generator("chain").normal(size=(4, 9))
    expected = np.repeat(np.mean(Z, axis=1, keepdims=True), 9, axis=1)  # constants cost nothing
    np.testing.assert_allclose(term.prox(Z, step), expected, rtol=0, atol=10 / step + 1e-13)


def test_one_huge_entry_does_not_stop_smooth_dictionary_learning() -> None:
    X = generator("huge").random((40, 8))
    X[3, 2] = 1e20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = vrmf.SmoothDictionaryLearning(3, max_iter=2, random_state=0).fit(X)
    assert np.all(np.isfinite(model.components_))


# ------------------------------------------------------------------ what is left of an entry

LEFT: dict[str, AbstractRowTerm] = {
    "l1": L1(0.1),
    "box": Box(-2.0, 3.0),
    "ridge": Ridge(0.3),
    "ridge-small": Ridge(1e-10),
    "absent": Absent(),
    "free": Free(),
    "nonneg": NonNegative(),
    "l1+box": L1(0.1) + Box(-2.0, 3.0),
    "l1+box-huge": L1(0.1) + Box(-1e12, 1e12),
    "l1+ridge": L1(0.1) + Ridge(0.3),
    "l1+ridge-small+box": L1(0.1) + Ridge(1e-9) + Box(-1e9, 1e9),
    "l1+nonneg": L1(0.1) + NonNegative(),
}


def exact_left(term: AbstractRowTerm, z: Fraction) -> Fraction:
    """z − prox(z) in exact arithmetic: soft threshold, shrink, clip."""
    if isinstance(term, Absent):
        return z
    parts = getattr(term, "terms", (term,))
    weight = sum((Fraction(p.weight) for p in parts if isinstance(p, L1)), Fraction(0))
    ridge = sum((Fraction(p.weight) for p in parts if isinstance(p, Ridge)), Fraction(0))
    p = max(abs(z) - weight, Fraction(0)) / (1 + ridge) * (1 if z > 0 else -1)
    for part in parts:
        low, high = (0.0, np.inf) if isinstance(part, NonNegative) else (-np.inf, np.inf)
        if isinstance(part, Box):
            low, high = part.low, part.high
        p = max(p, Fraction(low)) if np.isfinite(low) else p
        p = min(p, Fraction(high)) if np.isfinite(high) else p
    return z - p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LEFT)
def test_what_the_prox_leaves_is_exact_to_a_few_roundings(name: str, dtype: Any) -> None:
    term = LEFT[name]
    sizes = np.geomspace(1e-12, 1e15, 55)
    Z = np.concatenate([sizes, -sizes, [0.0]])[None].astype(dtype)
    left = term.envelope_gradient(Z)
    assert left.dtype == dtype
    for z, found in zip(Z[0], left[0], strict=True):
        expected = float(exact_left(term, Fraction(float(z))))
        # a difference z − end is rounded in proportion to what is left, and the end itself to its size
        known = term.canonical or Canonical()
        ends = [abs(end) for end in (known.low, known.high) if np.isfinite(end)]
        given = max(ends, default=0.0) if dtype == np.float32 else 0.0
        assert abs(float(found) - expected) <= 4 * float(np.finfo(dtype).eps) * max(abs(expected), given)


@pytest.mark.parametrize("name", ["group-apart", "group-one", "ball", "simplex", "user"])
def test_what_the_prox_leaves_is_the_difference_where_that_is_exact_enough(name: str) -> None:
    term, width = TERMS[name]
    Z = generator(name).normal(size=(5, width))
    np.testing.assert_allclose(term.envelope_gradient(Z), Z - term.prox(Z, 1.0), rtol=0, atol=1e-13)


ROBUST: dict[str, Formulation] = {
    "P5": robust_pca(0.3, 0.4, 30),
    "P6": Formulation(UnitBall(), UnitBall(), L1(0.4)),
    "P8": robust_nmf(0.3, 2.0, 1e16),
    "l1": Formulation(UnitBall(), L1(0.1), L1(0.4)),
}


@pytest.mark.parametrize("size", [1e6, 1e12, 1e15])
@pytest.mark.parametrize("name", ROBUST)
def test_a_huge_entry_is_an_outlier_and_no_more(name: str, size: float) -> None:
    # The gradient of an outlier is bounded by its weight, however large the outlier is.
    model, rng = ROBUST[name], generator(name)
    D = np.abs(rng.normal(size=(4, 9)))
    X = np.abs(rng.normal(size=(6, 4))) @ D
    X[:, 2] = 1e3
    moderate = model.encode(X, Atoms(D), Coder(tol=1e-9))
    X[:, 2] = size
    huge = model.encode(X, Atoms(D), Coder(tol=1e-9))
    assert np.all(huge.finished)
    assert np.max(huge.error) <= 1e-9
    E = X - huge.H @ D
    E[:, 2] = 0.4 if name != "P8" else 0.3
    pull = np.clip(E, -E[0, 2], E[0, 2]) @ D.T
    expected = np.clip(X - moderate.H @ D, -E[0, 2], E[0, 2]) @ D.T
    np.testing.assert_allclose(pull, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_atoms_too_small_to_square_do_nothing(name: str) -> None:
    rng = np.random.default_rng(0)
    X, R = rng.random((30, 6)), rng.random((3, 6))
    model = make(name).fit(X)
    for size in (1e-160, 1e-155, 1e-150, 1e-120):
        model.components_ = size * R
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert np.isfinite(model.transform(X)).all()


@pytest.mark.filterwarnings("ignore:All codes")
@pytest.mark.filterwarnings("ignore:.*stopped before it was stationary")
@pytest.mark.parametrize("name", NAMES)
def test_a_fit_of_zeros_ends(name: str) -> None:
    model = make(name, n_components=6, max_iter=100, tol=1e-6).fit(np.zeros((20, 5)))
    assert np.isfinite(model.components_).all() and not model.transform(np.zeros((3, 5))).any()
