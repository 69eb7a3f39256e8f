"""Laws of the certificate: what it measures, of which dictionary, and when it ends a fit."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from estimator_cases import (
    ROTATING,
    automatic,
    codes_may_stop_short,
    corrupted,
    every_estimator,
    every_solver,
    make,
    rows,
)
from reference import minimise, to_cvxpy
from tables import FORMULATIONS, every_formulation, generator, problem_of
from vrmf import (
    NMF,
    DictionaryLearning,
    GroupDictionaryLearning,
    RobustNMF,
    RobustPCA,
    SmoothDictionaryLearning,
)
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.dictionaries import feasible
from vrmf.formulations import Formulation, max_norm_decomposition, robust_nmf, robust_pca
from vrmf.measurement import Measurement
from vrmf.problem import Problem
from vrmf.running.history import History, Iterate
from vrmf.running.loop import run
from vrmf.running.rules import MaxEpochs, Stationary
from vrmf.running.stage import Stage
from vrmf.solvers import VR, Algorithm1, Batch
from vrmf.solvers.base import State
from vrmf.sources import as_source

X = corrupted(rows(60, 6))

#: Our figure sums descents up to the last hundredth of what they bring, so the true one may be larger.
SHORT = 1.25

#: Without variance reduction, noise keeps these from small tolerances on these rows.
NOISY = {("robust-nmf", "smm"), ("robust-nmf", "sgd"), ("max-norm-decomposition", "smm")}


def promised_share(formulation: Formulation, X: Array, D: Array) -> float:
    """Return the relative stationarity by its definition, the surrogate minimised by a convex solver."""
    X, D = X.astype(np.float64), D.astype(np.float64)
    codes = formulation.encode(X, Atoms(D), Coder(tol=1e-11))
    (residual, R), n = formulation.residual(X, D, codes.H), len(X)
    A, G = codes.H.T @ codes.H / n, codes.H.T @ residual / n
    objective = np.mean(formulation.losses(X, D, codes.H)) + formulation.dictionary.value(D)
    values, vectors = np.linalg.eigh(A)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    P = cp.Variable(D.shape)
    penalty, constraints = to_cvxpy(formulation.dictionary, P)
    # The solver is accurate where its objective is of size 1.
    size = max(float(np.sum(np.abs(G * D))), 1e-12)
    surrogate = cp.sum(cp.multiply(G, P - D)) + cp.sum_squares(root @ (P - D)) / 2 + penalty
    lowest = size * minimise(surrogate / size, constraints)
    promised = formulation.dictionary.value(D) - lowest
    unexplained = 0.0 if R is None else np.mean(formulation.outliers.row_values(R))
    return max(float(promised / (objective - unexplained)), 0.0)


# ------------------------------------------------------------------ what is measured


@every_formulation
def test_the_measure_is_the_decrease_that_a_full_step_promises(name: str) -> None:
    formulation, X, D = FORMULATIONS[name](generator(name))
    measured = Problem(formulation, as_source(X)).certify(D)
    expected = promised_share(formulation, X, D)
    assert expected / SHORT <= measured.relative_stationarity <= expected * (1 + 1e-5) + 1e-9


@pytest.mark.slow
@every_formulation
def test_the_decrease_that_a_step_promises_is_reached(name: str) -> None:
    problem, D = problem_of(name)
    first = problem.certify(D)
    outcome = run(
        VR(opening=False, batch_size=problem.n_samples, inner_steps=1),
        problem,
        D,
        seed=0,
        rules=[MaxEpochs(40)],
    )
    # The decrease that a step promises is reached by later iterates.
    lowest = min(value for value in outcome.history.objective if not math.isnan(value))
    assert lowest <= first.objective * (1 - 0.5 * first.relative_stationarity)


@pytest.mark.parametrize("power", [-60, -6, 6, 60])
@every_estimator
def test_it_does_not_depend_on_the_scale_of_the_data(name: str, power: int) -> None:
    scale = 10.0 ** (0.8 * power if name == "low-rank-representation" else power)  # whose range is smaller
    model = automatic(name, solver="batch", max_iter=5).fit(X)
    scaled = automatic(name, solver="batch", max_iter=5).fit(scale * X)
    assert scaled.relative_stationarity_ == pytest.approx(model.relative_stationarity_, rel=1e-3)


@pytest.mark.parametrize("name", ROTATING)
def test_it_does_not_depend_on_a_rotation(name: str) -> None:
    model = make(name).fit(X)
    problem = Problem(model.formulation_, as_source(X))
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    there, here = problem.certify(rotation @ model.components_), problem.certify(model.components_)
    assert there.relative_stationarity == pytest.approx(here.relative_stationarity, rel=1e-3)


def test_a_stationary_dictionary_is_stationary_for_every_solver() -> None:
    """A dictionary that one solver calls stationary is stationary for every other, from any start."""
    for init in ("data", "svd", "random"):
        D = DictionaryLearning(3, init=init, solver="batch", random_state=0).fit(X).components_
        for solver in ("vr", "batch"):
            again = DictionaryLearning(3, init=D, solver=solver, random_state=0, record_every=1).fit(X)
            assert again.history_["relative_stationarity"][0] <= again.tol
            np.testing.assert_array_equal(again.components_, D)


def test_an_exact_fit_is_stationary_to_rounding() -> None:
    exact = np.outer(np.arange(1.0, 30.0), [1.0, 2.0, 3.0])
    model = NMF(1, alpha=1e-300, tol=1e-300, random_state=0).fit(exact)
    assert model.stop_reason_.startswith("stationary to rounding")


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_nearly_exact_fit_ends_without_a_warning(k: int) -> None:
    rng = np.random.default_rng(0)
    for data in (np.ones((10, 4)), rng.random((60, k)) @ np.eye(k, 8)):
        model = NMF(k, random_state=0).fit(data)
        assert model.stop_reason_.startswith("stationary") and model.reconstruction_error_ < 1e-3


# ------------------------------------------------------------------ of which dictionary


@codes_may_stop_short
@every_solver
@every_estimator
def test_a_stationary_stop_is_of_the_dictionary_that_is_returned(name: str, solver: str) -> None:
    tol, options = (1e-5, {}) if solver in ("vr", "batch") else (5e-2, {"record_every": 1})
    if (name, solver) in NOISY:
        tol = 0.2
    model = make(name, solver=solver, tol=tol, max_iter=1000, **options).fit(X)
    assert model.stop_reason_.startswith("stationary")
    assert promised_share(model.formulation_, X, model.components_) <= SHORT * tol
    assert model.relative_stationarity_ <= tol


@codes_may_stop_short
@every_solver
@every_estimator
def test_figures_are_of_the_dictionary_that_is_returned(name: str, solver: str) -> None:
    tol = 0.5 if (name, solver) in NOISY else 2e-2
    for options in ({"max_iter": 3}, {"tol": tol, "max_iter": 400, "record_every": 1}):
        model = make(name, solver=solver, **options).fit(X)
        measured = Problem(model.formulation_, as_source(X)).certify(model.components_)
        assert model.objective_ == pytest.approx(measured.objective, rel=1e-12)
        assert model.stationarity_ == pytest.approx(measured.stationarity, rel=1e-6, abs=1e-20)
        assert model.relative_stationarity_ == pytest.approx(measured.relative_stationarity, abs=1e-12)


@codes_may_stop_short
@pytest.mark.parametrize("solver", ["vr", "batch"])
@every_estimator
def test_each_row_of_the_history_is_of_its_iterate(name: str, solver: str) -> None:
    model = make(name, solver=solver, max_iter=4).fit(X)
    problem = Problem(model.formulation_, as_source(X))
    walk = list(make(name, solver=solver, max_iter=4).iterate(X))
    known = [row for row, value in enumerate(model.history_["objective"]) if not math.isnan(value)]
    assert len(known) >= 4
    for row in known:
        expected = problem.certify(walk[row].D)
        assert model.history_["objective"][row] == pytest.approx(expected.objective, rel=1e-3)


@pytest.mark.slow
def test_a_fit_of_many_rows_returns_a_stationary_dictionary() -> None:
    rng = np.random.default_rng(0)
    many = rng.random((8000, 5)) @ rng.random((5, 12)) + 0.05 * rng.random((8000, 12))
    for kind in (DictionaryLearning, GroupDictionaryLearning):
        model = kind(5, random_state=0, n_jobs=1).fit(many)
        assert model.stop_reason_.startswith("stationary")
        assert promised_share(model.formulation_, many, model.components_) <= SHORT * model.tol


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 5])
def test_nearly_collinear_rows_are_fitted_to_the_tolerance(k: int) -> None:
    """Block coordinate descent over atoms is slow here; slow progress must not count as convergence."""
    rng = np.random.default_rng(0)
    flat = np.abs(rng.random((60, 2)) @ rng.random((2, 12)) + 0.01 * rng.standard_normal((60, 12)))
    for kind in (SmoothDictionaryLearning, NMF, RobustNMF):
        model = kind(k, tol=1e-4, random_state=0, n_jobs=1).fit(flat)
        assert model.stop_reason_.startswith("stationary")
        assert promised_share(model.formulation_, flat, model.components_) <= SHORT * 1e-4


def test_option_i_returns_the_dictionary_that_was_found_stationary() -> None:
    model = make("nmf", solver=Algorithm1(option="random"), tol=1e-4, max_iter=500).fit(X)
    assert model.stop_reason_.startswith("stationary")
    assert promised_share(model.formulation_, X, model.components_) <= SHORT * 1e-4


# ------------------------------------------------------------------ when it ends a fit


def measurement(share: float, objective: float = 1.0, is_exact: bool = False) -> Measurement:
    return Measurement(np.full((1, 1), objective), objective, 0.0, share, 0.0, 0.1, 0.0, is_exact)


def moment(measured: Measurement | None) -> Iterate:
    state = State(D=np.zeros((1, 1)), seed=0, measured=measured)
    return Iterate(state.D, 0, 0, 0.0, 0.0, state, Stage(robust_pca(1.0, 1.0, 1), state.D, 0))


def after(*measured: Measurement) -> History:
    history = History()
    for each in (None, *measured):
        history.add(moment(each))
    return history


def test_a_loose_measurement_is_confirmed_by_an_exact_one() -> None:
    asked: list[Array] = []

    def certify(D: Array) -> Measurement:
        asked.append(D)
        return measurement(2e-3 if len(asked) == 1 else 1e-4, is_exact=True)

    rule, history = Stationary(1e-3, certify), after(measurement(5e-4))
    assert rule(moment(None), history) is None, "exact codes do not confirm it"
    assert rule(moment(None), history) is None and len(asked) == 1, "the same is not asked twice"
    assert history.relative_stationarity[0] == 2e-3, "the record holds what exact codes tell"
    history.add(moment(measurement(4e-4)))
    assert rule(moment(None), history) is None and len(asked) == 1, "it was four times too small before"
    history.add(moment(measurement(2e-4)))
    reason = rule(moment(None), history)
    assert reason is not None and reason.converged and reason.answer is not None
    assert history.relative_stationarity[2] == 1e-4


def test_a_dictionary_worse_than_the_best_is_not_the_answer() -> None:
    history = after(measurement(0.5, objective=1.0), measurement(1e-9, objective=2.0, is_exact=True))
    assert Stationary(1e-3, lambda D: measurement(0.0))(moment(None), history) is None
    assert history.best is not None and history.best.objective == 1.0


def after_passes(*objectives: float) -> History:
    """Return a history of dictionaries that are all within a tolerance of 1e-6, one each pass."""
    history = History()
    for passes, objective in enumerate((math.nan, *objectives)):
        known = None if math.isnan(objective) else measurement(1e-7, objective, is_exact=True)
        history.add(replace(moment(known), passes=float(passes)))
    return history


def test_a_fit_that_still_gains_is_not_stationary() -> None:
    """Near a saddle point a full step promises little, but each pass gains, and later ones gain more."""
    rule = Stationary(1e-6, lambda D: measurement(1e-7, is_exact=True))
    assert rule(moment(None), after_passes(1.0 + 2e-5, 1.0)) is None
    assert rule(moment(None), after_passes(1.0 + 2e-5, 1.0, 1.0 - 2e-6)) is not None
    assert rule(moment(None), after_passes(1.0)) is not None, "nothing older is known"


def test_the_recent_gain_is_over_at_least_a_pass() -> None:
    history = after_passes(1.3, 1.2, 1.0)
    assert history.recent_gain == pytest.approx(0.2)
    between = measurement(1e-7, 0.8, is_exact=True)
    history.add(replace(moment(None), passes=3.25), between)
    assert history.recent_gain == pytest.approx(0.2 / 0.8), "against the one at least a pass ago"
    assert History().recent_gain == 0 and after_passes(1.0).recent_gain == 0


@pytest.mark.slow
def test_nmf_of_digits_does_not_stop_near_a_saddle_point() -> None:
    model = NMF(49, random_state=0).fit(load_digits().data)
    assert model.stop_reason_.startswith("stationary") and model.objective_ <= 1.02 * 1.0814


@every_estimator
def test_batch_reports_the_best_that_it_measured(name: str) -> None:
    model = make(name, solver=Batch(), max_iter=7).fit(X)
    known = [value for value in model.history_["objective"] if not math.isnan(value)]
    assert model.objective_ <= min(known) * (1 + 1e-6)


NMF_PROBLEMS: dict[str, Any] = {
    "low rank": lambda r: (r.random((400, 5)) @ r.random((5, 12)) + 0.05 * r.random((400, 12)), 5),
    "counts": lambda r: (r.poisson(r.gamma(0.3, 1, (200, 6)) @ r.gamma(0.3, 5, (6, 30))) * 1.0, 6),
    "surplus": lambda r: (r.poisson(r.gamma(0.3, 1, (150, 4)) @ r.gamma(0.3, 5, (4, 30))) * 1.0, 8),
    "curves": lambda r: (np.abs(np.cumsum(r.normal(size=(200, 20)), axis=1)), 4),
    "sparse": lambda r: (r.random((300, 6)) ** 4 @ r.random((6, 15)) ** 4, 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NMF_PROBLEMS)
def test_the_default_tolerance_leaves_little_to_gain(name: str) -> None:
    data, k = NMF_PROBLEMS[name](np.random.default_rng(0))
    default = NMF(k, random_state=0, max_iter=600).fit(data)
    longer = NMF(k, init=default.components_, tol=1e-9, solver=VR(opening=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it may run its whole budget
        longer.fit(data)
    assert longer.objective_ >= 0.98 * default.objective_


@pytest.mark.slow
def test_robust_pca_stops_where_it_says() -> None:
    model = RobustPCA(2, random_state=0).fit(X)
    assert model.stop_reason_.startswith("stationary") and model.relative_stationarity_ <= model.tol


@pytest.mark.parametrize("kind", ["P5", "P6", "P8"])
def test_the_size_of_gross_outliers_does_not_matter(kind: str) -> None:
    """No dictionary explains outliers, so the scale of the relative stationarity leaves them out."""
    rng = generator(f"gross outliers {kind}")
    clean, mask = rng.random((80, 3)) @ rng.random((3, 12)), rng.random((80, 12)) < 0.1
    form = {
        "P5": robust_pca(0.5, 0.1, 80),
        "P6": max_norm_decomposition(0.5, 0.1, 80),
        "P8": robust_nmf(0.1, 50.0, 1e9),
    }[kind]
    D = feasible(form, rng.random((3, 12)))
    found = [
        Problem(form, as_source(clean + size * mask)).certify(D).relative_stationarity
        for size in (1e2, 1e5, 1e8)
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-4)


@pytest.mark.slow
def test_gross_outliers_do_not_end_a_fit_early() -> None:
    rng = generator("gross outliers, fitted")
    clean, mask = 3 * rng.random((400, 3)) @ rng.random((3, 30)), rng.random((400, 30)) < 0.1
    noisy, outliers = clean + 0.01 * rng.standard_normal(clean.shape), mask * rng.uniform(-1, 1, mask.shape)
    errors = []
    for size in (1e2, 1e8):
        model = RobustNMF(3, random_state=0).fit(noisy + size * outliers)
        low_rank = model.decompose(noisy + size * outliers)[0]
        errors.append(np.linalg.norm(low_rank - clean) / np.linalg.norm(clean))
    assert errors[1] <= 1.1 * errors[0]
