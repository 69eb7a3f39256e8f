"""Laws of the solvers, over every formulation: equivalences, purity, descent, and counts of rows."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from tables import FORMULATIONS, every_formulation, generator, problem_of
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.block_sums import ChangeOfSlope
from vrmf.coding import Coder
from vrmf.dictionaries import feasible, reseed
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running.loop import iterate, run
from vrmf.running.rules import MaxEpochs, Stationary
from vrmf.solvers import SGD, SMM, SOLVERS, VR, AbstractSolver, Algorithm1, Batch, State, vr
from vrmf.solvers.algorithm1 import Algorithm1State
from vrmf.solvers.base import paper_batch_size, paper_inner_steps
from vrmf.solvers.smm import SMMState
from vrmf.sources import LocalSource
from vrmf.sources.companions import Carry
from vrmf.sources.layout import LEAST_ROWS
from vrmf.sources.selection import Rows
from vrmf.stats import WorstRows
from vrmf.surrogate import by_atoms, by_gradient, by_rotation, minimise_surrogate
from vrmf.terms import (
    L1,
    AbstractRowTerm,
    AbstractTerm,
    Free,
    LowRankQuadratic,
    MaxColumnNorm,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    UnitBall,
    chain_laplacian,
)

EXACT = Coder(tol=1e-12)

every_solver = pytest.mark.parametrize("solver", SOLVERS)


def states(solver: AbstractSolver, problem: Problem, D: Array, count: int) -> list[State]:
    return [it.state for it in itertools.islice(iterate(solver, problem, D, seed=3), count)]


def descent_step(problem: Problem, D: Array) -> float:
    return 0.5 / problem.stats(D, EXACT).largest_curvature


# ------------------------------------------------------------------ equivalences


@every_formulation
def test_full_batches_or_single_inner_steps_are_batch_steps(name: str) -> None:
    problem, D = problem_of(name)
    n, eta = problem.n_samples, descent_step(problem, D)
    solvers: list[AbstractSolver] = [
        Batch(step_size=eta, momentum=False, reseed=False, coder=EXACT),
        Algorithm1(batch_size=n, inner_steps=4, step_size=eta, coder=EXACT),
        Algorithm1(batch_size=3, inner_steps=1, step_size=eta, coder=EXACT),
        SGD(batch_size=n, scale=eta * 1e15, offset=1e15, reseed=False, coder=EXACT),
    ]
    runs = [iterate(solver, problem, D, seed=0) for solver in solvers]
    for moments in itertools.islice(zip(*runs, strict=True), 7):
        for other in moments[1:]:
            np.testing.assert_allclose(other.D, moments[0].D, rtol=0, atol=1e-10)
    assert np.max(np.abs(moments[0].D - D)) > 1e-4


@every_formulation
def test_the_cache_of_codes_changes_a_step_by_the_coding_tolerance_only(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vr, "LOOSEST", 0.0)
    problem, D = problem_of(name)
    cached: Any
    plain: Any
    on, off = (
        states(VR(batch_size=5, opening=False, cache_megabytes=size, coder=Coder(tol=1e-11)), problem, D, 3)
        for size in (256, 0)
    )
    for cached, plain in zip(on[1:], off[1:], strict=True):
        np.testing.assert_allclose(cached.D, plain.D, rtol=0, atol=1e-6)
        assert cached.solved < plain.solved
    assert cached.anchor.codes is not None and plain.anchor.codes is None


@every_formulation
@pytest.mark.parametrize("known", [True, False], ids=["cached", "both solved"])
def test_the_change_of_the_slope_is_that_of_the_sums(name: str, known: bool) -> None:
    problem, D = problem_of(name)
    moved = feasible(problem.formulation, D + 0.05 * generator(name).normal(size=D.shape))
    rows, codes = np.arange(0, problem.n_samples, 2), problem.room_for_codes("codes", 0, len(D))
    problem.stats(D, EXACT, store=codes)
    pair = problem.paired_stats(moved, D, EXACT, rows, codes if known else None)
    change = problem.slope_change(moved, D, EXACT, rows, codes if known else None)
    expected = pair.current.gradient - pair.anchor.gradient
    np.testing.assert_allclose(change.gradient, expected, atol=1e-9 * max(1, np.max(np.abs(expected))))
    np.testing.assert_array_equal(change.used, pair.current.used)
    assert change.count == len(rows)


# ------------------------------------------------------------------ purity


@every_solver
@every_formulation
def test_the_same_state_stepped_twice_gives_the_same_bits(name: str, solver: str) -> None:
    problem, D = problem_of(name)
    chosen = SOLVERS[solver]()
    state = states(chosen, problem, D, 4)[-1]
    before = copy.deepcopy(state)
    first, second = chosen.step(problem, state), chosen.step(problem, state)
    for one, other in ((first, second), (state, before)):
        assert_same(one, other)


def assert_same(one: Any, other: Any) -> None:
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other or (one != one and other != other)  # NaN is the same as NaN here


@every_solver
@pytest.mark.parametrize("name", ["P1", "P5"])
def test_bits_do_not_depend_on_threads(name: str, solver: str) -> None:
    formulation, X, D = FORMULATIONS[name](generator(name))
    X = np.tile(X, (50, 1)) + 0.01 * generator("threads").normal(size=(50 * len(X), X.shape[1]))
    ends = []
    for n_jobs in (1, 2, 3):
        problem = Problem(formulation, LocalSource(X, n_jobs=n_jobs))
        ends.append(states(SOLVERS[solver](), problem, D, 4)[-1].D)
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


class Counting(LocalSource):
    """An array in memory that counts the rows that it hands out, twice for codes at two dictionaries."""

    handed_out = 0

    def reduce(self, function: Any, rows: Rows = None, carry: Carry | None = None) -> Any:
        solves = 2 if isinstance(function, ChangeOfSlope) and carry is not None and not carry.reads else 1
        self.handed_out += solves * sum(map(len, self.layout.parts(rows)))
        return super().reduce(function, rows, carry)


@every_solver
def test_solved_counts_the_rows_that_the_source_handed_out(solver: str) -> None:
    formulation, X, D = FORMULATIONS["P1"](generator("P1"))
    source = Counting(X)
    last = states(SOLVERS[solver](), Problem(formulation, source), D, 8)[-1]
    assert last.solved == source.handed_out


def test_without_a_cache_each_row_of_a_minibatch_is_solved_twice() -> None:
    problem, D = problem_of("P1")
    last = states(Algorithm1(batch_size=5, inner_steps=2), problem, D, 3)[-1]
    assert last.solved == problem.n_samples + 2 * 2 * 5


# ------------------------------------------------------------------ descent


@every_solver
@every_formulation
def test_every_solver_lowers_the_objective_stays_feasible_and_nears_stationarity(
    name: str, solver: str
) -> None:
    problem, D = problem_of(name)
    outcome = run(SOLVERS[solver](), problem, D, seed=0, rules=[MaxEpochs(15)])
    before, after = (problem.measure(problem.stats(E, EXACT), E) for E in (D, outcome.iterate.D))
    assert after.objective < before.objective
    assert after.stationarity < before.stationarity
    assert np.isfinite(problem.formulation.dictionary.value(outcome.iterate.D))
    assert outcome.iterate.D.dtype == np.float64


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMULATIONS.keys() - {"P2-literal"}))  # which has no minimiser
def test_batch_runs_to_high_accuracy(name: str) -> None:
    problem, D = problem_of(name)
    outcome = run(
        Batch(coder=EXACT), problem, D, seed=0, rules=[Stationary(1e-13, problem.certify), MaxEpochs(3000)]
    )
    assert outcome.reason.converged, outcome.reason.text
    assert problem.measure(problem.stats(outcome.iterate.D, EXACT), outcome.iterate.D).satisfies(1e-13)


@pytest.mark.parametrize("name", ["P1", "P3", "P5", "P6", "P8"])
def test_plain_batch_steps_never_raise_the_objective(name: str) -> None:
    problem, D = problem_of(name)
    outcome = run(Batch(momentum=False, coder=EXACT), problem, D, seed=0, rules=[MaxEpochs(30)])
    objective = np.array(outcome.history.objective[:-1])
    assert np.all(np.diff(objective) <= 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["P1", "P3", "P5", "P6", "P8"])
def test_a_step_that_is_too_long_is_taken_back(name: str) -> None:
    problem, D = problem_of(name)
    step = 40 * descent_step(problem, D)
    for solver in (VR(step_size=step), Batch(step_size=step, momentum=False)):
        outcome = run(solver, problem, D, seed=0, rules=[MaxEpochs(60)])
        before, after = (problem.measure(problem.stats(E, EXACT), E) for E in (D, outcome.iterate.D))
        assert after.objective < before.objective


def with_dead_atoms(dictionary: AbstractTerm) -> tuple[Problem, Array]:
    """Return a problem that starts with two atoms orthogonal to all rows, which no code uses."""
    X = np.abs(generator("dead").normal(size=(60, 6)))
    X[:, 4:] = 0.0
    D = np.abs(generator("atoms").normal(size=(5, 6)))
    D[:3, 4:], D[3:, :4] = 0.0, 0.0
    D[3:, 4:] = np.eye(2)
    D /= D.sum(axis=1, keepdims=True)
    return Problem(Formulation(dictionary, L1(0.02) + NonNegative()), LocalSource(X)), D


@pytest.mark.parametrize("kind", [VR, Batch])
@pytest.mark.parametrize(
    "dictionary",
    [Ridge(0.5), Sum((Quadratic(chain_laplacian(6), 20.0), Simplex()), iterative=True), Simplex()],
    ids=["ridge", "smooth", "simplex"],
)
def test_new_atoms_do_not_stop_the_descent(dictionary: AbstractTerm, kind: type[VR] | type[Batch]) -> None:
    problem, D = with_dead_atoms(dictionary)
    ends = []
    for renew in (True, False):
        outcome = run(kind(reseed=renew), problem, D, seed=0, rules=[MaxEpochs(40)])
        ends.append(problem.measure(problem.stats(outcome.iterate.D, EXACT), outcome.iterate.D).objective)
    assert ends[0] <= 1.02 * ends[1]


def test_a_dead_atom_never_becomes_the_copy_of_another() -> None:
    problem, D = with_dead_atoms(Simplex())
    worst = problem.stats(D, EXACT).worst
    doubled = WorstRows.among(np.repeat(worst.scores, 2), Block(np.repeat(worst.rows, 2, axis=0)))
    fresh = reseed(problem.formulation, D, np.array([False] * 3 + [True] * 2), doubled)
    assert np.max(np.abs(fresh[3] - fresh[4])) > 1e-3


# ------------------------------------------------------------------ Algorithm 1


def test_the_papers_batch_size_and_epoch_length() -> None:
    assert Algorithm1().epoch_shape(100_000) == (431, 23)
    assert paper_batch_size(2429) == 36 and paper_inner_steps(2429) == 7
    assert Algorithm1().epoch_shape(1) == (1, 1)


@pytest.mark.parametrize(
    ("n", "k", "b"),
    [
        (1, 3, 1),
        (50, 3, 5),
        (2429, 49, 64),
        (10_000, 49, 250),
        (10_000, 512, 1000),
        (30_000, 512, 64 + 4 * 448),
        (60_000, 400, 1500),
        (200_000, 512, 64 + 8 * 448),
    ],
)
def test_the_practical_epoch_is_a_pass_of_batches_that_suit_its_size(n: int, k: int, b: int) -> None:
    assert VR().epoch_shape(n, k) == (b, -(-n // b))


def test_mini_batches_from_chunks_are_worth_a_look_at_each() -> None:
    assert VR().epoch_shape(60_000, 5, least=1024) == (1024, 59)
    assert VR().epoch_shape(5_000, 5, least=1024) == (500, 10)
    assert VR(batch_size=70).epoch_shape(5_000, 5, least=1024)[0] == 70
    X = generator("least").normal(size=(30, 3))
    assert LocalSource(X).layout.least_batch == 1
    assert LocalSource(X, chunk_rows=10, sampling="blocks", window=3).layout.least_batch == 3 * LEAST_ROWS


def test_the_step_of_algorithm_1_is_constant() -> None:
    problem, D = problem_of("P1")
    moments = [s for s in states(Algorithm1(), problem, D, 9)[1:] if isinstance(s, Algorithm1State)]
    assert len({s.step_size for s in moments}) == 1
    assert moments[-1].epoch >= 2


def test_algorithm_1_reports_stationarity_at_their_own_step_too() -> None:
    problem, D = problem_of("P1")
    eta = 0.3 * descent_step(problem, D)
    solver = Algorithm1(step_size=eta, coder=EXACT)
    record = run(solver, problem, D, seed=0, rules=[MaxEpochs(2)]).history.as_columns()
    moved = problem.prox_step(D, problem.stats(D, EXACT).gradient, eta)
    assert record["own_stationarity"][0] == pytest.approx(np.sum((D - moved) ** 2) / eta**2)
    assert record["own_stationarity"][0] != record["stationarity"][0]
    assert (
        "own_stationarity" not in run(VR(), problem, D, seed=0, rules=[MaxEpochs(1)]).history.as_columns()
    )


@pytest.mark.slow
def test_option_one_draws_uniformly_from_all_iterates() -> None:
    problem, D = problem_of("P1")
    solver = Algorithm1(option="random", batch_size=2, inner_steps=2, coder=Coder(tol=1e-3))
    count, runs = 4, 160
    drawn = np.zeros(count)
    for seed in range(runs):
        moments = list(itertools.islice(iterate(solver, problem, D, seed), count + 1))[1:]
        (place,) = [i for i, it in enumerate(moments) if np.array_equal(it.state.D, moments[-1].D)]
        drawn[place] += 1
    # Each count is binomial with standard deviation 5.5.
    assert np.all(np.abs(drawn - runs / count) < 25)


@pytest.mark.parametrize("name", ["P1-ridge", "P3", "P5", "P7"])
def test_inexact_codes_keep_the_error_of_theorem_two(name: str) -> None:
    problem, D = problem_of(name)
    tau = 0.5
    solver = Algorithm1(tau=tau, batch_size=4, inner_steps=5)
    exact = Algorithm1(batch_size=4, inner_steps=5, coder=EXACT)
    first = float(np.linalg.norm(problem.stats(D, EXACT).gradient))
    loosest = 0.0
    for state in states(solver, problem, D, 12)[1:]:
        assert isinstance(state, Algorithm1State) and state.anchor is not None
        if state.inner == 0:
            continue
        rows = problem.source.draw(4, state.seed, state.step)
        V = []
        for which in (solver, exact):
            coder = which._coder(problem, state, state.step + 1)
            pair = problem.paired_stats(state.D, state.anchor.D, coder, rows)
            anchor = state.anchor.gradient
            if which is exact:
                anchor = problem.stats(state.anchor.D, EXACT).gradient
            V.append(pair.current.gradient - pair.anchor.gradient + anchor)
            loosest = max(loosest, coder.tol)
        allowed = first * (state.step + 1) ** -(0.5 + tau)
        assert np.linalg.norm(V[0] - V[1]) <= allowed
    assert loosest > 10 * solver.coder.tol  # the schedule does loosen the tolerance


# ------------------------------------------------------------------ the surrogate of SMM


def surrogate(term: AbstractTerm, A: Array, B: Array, D: Array) -> float:
    return float(0.5 * np.sum(D * (A @ D)) - np.sum(D * B)) + term.value(D)


@pytest.mark.parametrize(
    "term",
    [
        Free(),
        Ridge(0.3),
        Quadratic(chain_laplacian(5), 0.7),
        Quadratic(chain_laplacian(5).toarray(), 0.7),
        LowRankQuadratic(np.eye(5)[:, :2], np.array([1.0, 3.0]), 0.5),
    ],
    ids=["free", "ridge", "sparse", "dense", "low-rank"],
)
def test_the_rotation_solves_the_sylvester_equation(term: AbstractTerm) -> None:
    rng = generator("rotation")
    H = rng.normal(size=(20, 3))
    A, B = H.T @ H / 20, rng.normal(size=(3, 5))
    D = minimise_surrogate(term, A, B, rng.normal(size=(3, 5)))
    # The gradient of the quadratic ψ at D, from the definition of its prox.
    gradient = (D - term.prox(D, 1e-6)) / 1e-6 if not isinstance(term, Free) else 0 * D
    np.testing.assert_allclose(A @ D - B + gradient, 0, atol=1e-4)
    for _ in range(20):
        near = D + 1e-3 * rng.normal(size=D.shape)
        assert surrogate(term, A, B, near) >= surrogate(term, A, B, D)


def test_the_rotation_keeps_directions_that_no_code_uses() -> None:
    rng = generator("flat")
    D = rng.normal(size=(2, 4))
    A, B = np.diag([2.0, 0.0]), np.array([[2.0, 4.0, 6.0, 8.0], [0.0, 0.0, 0.0, 0.0]])
    new = by_rotation(Free(), A, A @ D - B, D)
    np.testing.assert_allclose(new, [[1.0, 2.0, 3.0, 4.0], D[1]], atol=1e-9)


CONSTRAINED: dict[str, tuple[AbstractTerm, Callable[[Any], Any]]] = {
    "ball": (UnitBall(), lambda D: ([cp.norm(D[j]) <= 1 for j in range(3)], 0)),
    "simplex": (Simplex(), lambda D: ([D >= 0, cp.sum(D, axis=1) == 1], 0)),
    "nonnegative ball": (
        NonNegative() + UnitBall(),
        lambda D: ([D >= 0, *(cp.norm(D[j]) <= 1 for j in range(3))], 0),
    ),
    "smooth simplex": (
        Sum((Quadratic(chain_laplacian(5), 0.5), Simplex()), iterative=True),
        lambda D: (
            [D >= 0, cp.sum(D, axis=1) == 1],
            0.25 * cp.sum([cp.quad_form(D[j], chain_laplacian(5).toarray()) for j in range(3)]),
        ),
    ),
    "max-norm": (
        MaxColumnNorm(0.5),
        lambda D: ([], 0.25 * cp.max(cp.vstack([cp.sum_squares(D[:, j]) for j in range(5)]))),
    ),
}


@pytest.mark.parametrize("name", CONSTRAINED)
def test_the_surrogate_is_minimised(name: str) -> None:
    term, describe = CONSTRAINED[name]
    rng = generator(name)
    H = rng.normal(size=(20, 3))
    A, B = H.T @ H / 20, rng.normal(size=(3, 5))
    variable = cp.Variable((3, 5))
    constraints, penalty = describe(variable)
    root = np.linalg.cholesky(A).T
    objective = 0.5 * cp.sum_squares(root @ variable) - cp.sum(cp.multiply(B, variable)) + penalty
    best = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    start = term.prox(rng.random((3, 5)), 1e-9)
    if isinstance(term, AbstractRowTerm):
        D = by_atoms(term, A, A @ start - B, start, sweeps=300)
    else:
        D = by_gradient(term, A, A @ start - B, start, accuracy=1e-9)
    assert surrogate(term, A, B, D) == pytest.approx(best, abs=1e-6)
    assert surrogate(term, A, B, minimise_surrogate(term, A, B, start)) <= surrogate(term, A, B, start)


def test_smm_accumulates_the_sums_of_all_batches_whatever_their_sizes() -> None:
    formulation, X, D = FORMULATIONS["P1"](generator("P1"))
    solver = SMM(reseed=False, coder=EXACT)
    state = solver.init(Problem(formulation, LocalSource(X)), D, seed=0)
    gram: Any = 0.0
    count = 0
    for size in (1, 7, 3):
        problem = Problem(formulation, LocalSource(X[count : count + size]))
        gram = gram + problem.stats(state.D, EXACT).gram
        state = solver.absorb(problem, state, epoch_rows=100)
        count += size
    assert isinstance(state, SMMState) and state.gram is not None
    np.testing.assert_allclose(state.gram, gram, atol=1e-10)
    assert state.weight == count


def test_forgetting_weights_the_past_down() -> None:
    problem, D = problem_of("P1")
    weights = [
        states(SMM(batch_size=5, forgetting=forgetting), problem, D, 6)[-1].weight  # type: ignore[attr-defined]
        for forgetting in (0.0, 1.0, 5.0)
    ]
    assert weights[0] == 25 and weights[0] > weights[1] > weights[2] > 5


def test_sgd_takes_the_papers_steps() -> None:
    problem, D = problem_of("P1")
    solver = SGD(batch_size=6, scale=2.0, offset=10.0, coder=EXACT)
    moments = states(solver, problem, D, 4)
    for t, (before, after) in enumerate(itertools.pairwise(moments)):
        rows = problem.source.draw(6, before.seed, before.step)
        gradient = problem.stats(before.D, EXACT, rows).gradient
        expected = problem.prox_step(before.D, gradient, 2.0 / (6 * t + 10.0))
        np.testing.assert_array_equal(after.D, expected)
