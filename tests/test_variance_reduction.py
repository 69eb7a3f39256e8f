"""Laws of VR with its default options: the opening, the anchors, and the length of steps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tables import FORMULATIONS, every_formulation, generator, problem_of
from vrmf._atoms import sweep_atoms
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.formulations import dictionary_learning
from vrmf.problem import Problem
from vrmf.running.loop import iterate, run
from vrmf.running.rules import MaxEpochs, Stationary
from vrmf.solvers import SMM, VR, Algorithm1, opening, vr
from vrmf.solvers.anchors import Anchor
from vrmf.solvers.base import smallest_batch
from vrmf.solvers.vr import VRState
from vrmf.sources import LocalSource
from vrmf.surrogate import atom_set, by_atoms, descend_surrogate
from vrmf.terms import AbstractRowTerm, Free, NonNegative, Ridge, Simplex, UnitBall

EXACT = Coder(tol=1e-12)


def many_rows(n: int = 4000) -> tuple[Problem, Array]:
    rng = generator("many rows")
    D = rng.normal(size=(6, 12))
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.4) @ D + 0.1 * rng.normal(size=(n, 12))
    start = rng.normal(size=(6, 12))
    return Problem(dictionary_learning(0.1), LocalSource(X)), start / np.linalg.norm(start, axis=1)[:, None]


def states(solver: VR, problem: Problem, D: Array, count: int) -> list[VRState]:
    moments = itertools.islice(iterate(solver, problem, D, seed=3), count)
    return [it.state for it in moments if isinstance(it.state, VRState)]


# ------------------------------------------------------------------ the opening


@pytest.mark.parametrize("name", ["P1", "P3", "P5", "P6"])
def test_the_opening_is_smm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FIRST_BATCH", 1)
    monkeypatch.setattr(Anchor, "is_exhausted", False)  # as it would be with three rows
    problem, D = problem_of(name)
    solver = VR()
    b = smallest_batch(problem.n_samples, len(D), opening.ROWS_PER_ATOM)
    smm = SMM(batch_size=b, forgetting=opening.FORGETTING, coder=Coder(tol=vr.LOOSEST))
    ours, theirs = iterate(solver, problem, D, seed=5), iterate(smm, problem, D, seed=5)
    for one, other in itertools.islice(zip(ours, theirs, strict=True), 2 * problem.n_samples // b + 1):
        np.testing.assert_array_equal(one.D, other.D)
        assert one.passes == other.passes and one.epoch == 0


def test_the_opening_is_short_against_much_data_and_two_passes_of_little() -> None:
    for n, rows in ((200, 400), (3000, 80 * 64), (20_000, 80 * 64)):
        problem, D = many_rows(n)
        opened = next(state for state in states(VR(), problem, D, 200) if state.opening is None)
        assert rows <= opened.solved < rows + 64


def test_a_good_start_is_not_spoilt_by_an_opening() -> None:
    problem, D = many_rows(3000)
    good = run(
        VR(), problem, D, seed=0, rules=[Stationary(1e-8, problem.certify), MaxEpochs(100)]
    ).iterate.D
    first = states(VR(), problem, good, 2)[1]
    assert first.opening is None and first.anchor is not None
    np.testing.assert_array_equal(first.anchor.D, good)
    poor = states(VR(), problem, D, 2)[1]
    assert poor.opening is not None


@pytest.mark.parametrize(("n", "size"), [(4000, "auto"), (200, 10), (30, 30)])
def test_an_opening_begins_with_two_mini_batches_and_ends_at_its_bound(n: int, size: int | str) -> None:
    problem, D = many_rows(n)
    run = opening.Opening(size, reseed=False, coder=EXACT)
    b = smallest_batch(n, len(D), opening.ROWS_PER_ATOM) if size == "auto" else int(size)
    state, is_over, solved = run.start(D, seed=0), False, [0]
    while not is_over:
        state, is_over = run.step(problem, state)
        solved.append(state.solved)
    assert np.diff(solved)[0] == min(n, opening.FIRST_BATCH * b) and set(np.diff(solved)[1:]) == {b}
    bound = min(opening.OPENING_STEPS * b, opening.OPENING_PASSES * n)
    assert solved[-2] < bound <= solved[-1]
    assert run.rows_seen(n, len(D)) == opening.OPENING_STEPS * b


def test_an_opening_that_could_gain_nothing_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Anchor, "is_exhausted", True)
    problem, D = many_rows(200)
    run = opening.Opening(10, reseed=True, coder=EXACT)
    state, is_over = run.step(problem, run.start(D, seed=0))
    np.testing.assert_array_equal(state.D, D)
    assert is_over and state.solved == 20 and state.weight == 0


def test_a_step_of_an_opening_is_pure() -> None:
    problem, D = many_rows(200)
    run = opening.Opening(10, reseed=True, coder=EXACT)
    state, _ = run.step(problem, run.start(D, seed=0))
    (one, _), (other, _) = run.step(problem, state), run.step(problem, state)
    np.testing.assert_array_equal(one.D, other.D)
    assert state.solved == 20 and one.solved == other.solved == 30


def test_algorithm_1_has_no_opening() -> None:
    problem, D = problem_of("P1")
    first: Any = next(itertools.islice(iterate(Algorithm1(), problem, D, seed=3), 1, None)).state
    assert first.anchor is not None and first.anchor.is_of_all_rows
    assert first.measured is not None


# ------------------------------------------------------------------ anchors on samples


@pytest.mark.slow
def test_anchors_grow_from_a_sample_to_all_rows_and_only_then_measure_and_count() -> None:
    problem, D = many_rows()
    counts = []
    for before, state in itertools.pairwise(states(VR(batch_size=4), problem, D, 4000)):
        if state.anchor is None:
            assert state.measured is None
            continue
        counts.append(state.anchor.count)
        if not state.anchor.is_of_all_rows:
            assert state.measured is None and state.epoch == 0
        elif before.inner == 0:
            assert state.measured is not None
    assert counts[0] == 80 * 4 and counts[-1] == problem.n_samples
    assert np.all(np.diff(counts) >= 0) and len(set(counts)) > 2


def test_a_larger_sample_adds_up_to_the_sums_over_its_rows() -> None:
    problem, D = many_rows(900)
    rows = problem.source.sample(200, 3)
    codes, full = (problem.room_for_codes("codes", number, len(D)) for number in (0, 1))
    stats = problem.stats(D, EXACT, rows, store=codes)
    grown = Anchor.of(problem, D, stats, codes, rows).with_more_rows(problem, EXACT)
    expected = problem.stats(D, EXACT, problem.source.sample(400, 3))
    assert grown.count == 400
    np.testing.assert_allclose(grown.gradient, expected.gradient, atol=1e-12)
    np.testing.assert_allclose(grown.curvature, expected.curvature, atol=1e-12)
    everything = grown.with_more_rows(problem, EXACT)
    assert everything.is_of_all_rows and everything.codes is codes
    expected = problem.stats(D, EXACT, store=full)
    np.testing.assert_allclose(everything.gradient, expected.gradient, atol=1e-12)
    assert codes.values is not None and full.values is not None
    np.testing.assert_allclose(codes.values, full.values, atol=1e-9)


def test_a_sample_is_exhausted_when_gamma_is_below_the_noise_of_its_gradient() -> None:
    problem, D = many_rows()
    rows = problem.source.sample(500, 3)
    noise = []
    for seed in range(40):
        drawn = problem.source.draw(500, seed)
        noise.append(problem.stats(D, EXACT, drawn).gradient)
    variance = float(np.mean(np.sum((np.array(noise) - np.mean(noise, axis=0)) ** 2, axis=(1, 2))))
    anchor = Anchor.of(problem, D, problem.stats(D, EXACT, rows), None, rows)
    # The bound counts the mean too, and the sample is an eighth of the rows.
    assert 0.8 * variance < anchor.noise < 3 * variance
    assert not anchor.is_exhausted
    low = replace(anchor, stationarity=0.9 * anchor.noise)
    assert low.is_exhausted


# ------------------------------------------------------------------ steps


@every_formulation
def test_anchors_over_all_rows_never_rise(name: str) -> None:
    problem, D = problem_of(name)
    objectives = []
    for state in states(VR(), problem, D, 400):
        if state.anchor is not None and state.inner == 1:
            objectives.append(state.anchor.objective)
    assert len(objectives) > 10
    assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))


@every_formulation
def test_every_answer_is_feasible(name: str) -> None:
    problem, D = problem_of(name)
    for moment in itertools.islice(iterate(VR(), problem, D, seed=0), 120):
        assert np.isfinite(problem.formulation.dictionary.value(moment.D))


@pytest.mark.parametrize("name", sorted(FORMULATIONS.keys() - {"P2-literal"}))  # which has no minimiser
def test_the_default_runs_to_high_accuracy(name: str) -> None:
    problem, D = problem_of(name)
    solver = VR(coder=Coder(tol=1e-11))
    tol = (
        1e-7 if name == "P2" else 1e-12
    )  # its objective is nearly flat, and more digits take thousands of passes
    outcome = run(solver, problem, D, seed=0, rules=[Stationary(tol, problem.certify), MaxEpochs(600)])
    assert outcome.reason.converged, outcome.reason.text


def test_steps_grow_while_the_objective_falls_and_shrink_when_it_rose() -> None:
    problem, D = problem_of("P1")
    state = next(s for s in states(VR(), problem, D, 100) if s.anchor is not None)
    old, pace = state.anchor, state.pace
    assert old is not None
    ahead = replace(old, D=old.D - 0.01 * old.mapping, objective=old.objective - 1)
    beyond = replace(ahead, mapping=-old.mapping)
    for new, factor in ((ahead, np.exp(vr.GAIN)), (beyond, np.exp(-vr.GAIN))):
        better, after = VR()._judge(pace, old, new)
        assert better is new and after.length == pytest.approx(pace.length * factor)
    risen = replace(ahead, objective=old.objective + 1)
    better, after = VR()._judge(pace, old, risen)
    assert better is old and after.length == pace.length / 4
    better, after = VR()._judge(replace(pace, reseeded=True), old, risen)
    assert better is old and after.length == pace.length and not after.may_reseed


@pytest.mark.slow
def test_codes_become_exact_as_the_dictionary_becomes_stationary() -> None:
    problem, D = many_rows(400)
    solver, tolerances = VR(coder=Coder(tol=1e-9)), []
    for state in states(solver, problem, D, 2000):
        if state.anchor is not None and state.inner == 1:
            tolerances.append(solver._coder(state).tol)
    assert tolerances[0] == vr.LOOSEST
    assert 1e-9 <= tolerances[-1] < 1e-2 * vr.LOOSEST


# ------------------------------------------------------------------ compiled descent by atoms

SETS = {
    "free": Free(),
    "ball": UnitBall(),
    "nonnegative": NonNegative(),
    "nonnegative ball": NonNegative() + UnitBall(),
    "simplex": Simplex(),
}


def by_atoms_slowly(term: AbstractRowTerm, A: Array, G: Array, D: Array) -> Array:
    B, D = A @ D - G, D.copy()
    for j in range(len(D)):
        D[j] = term.prox((D[j] + (B[j] - A[j] @ D) / A[j, j])[None], 1 / float(A[j, j]))[0]
    return D


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_compiled_sweep_is_descent_by_atoms(name: str, dtype: type, size: float) -> None:
    rng, term = generator(name), SETS[name]
    H = rng.normal(size=(30, 5))
    A: Array = (H.T @ H / 30).astype(dtype)
    G: Array = (size * rng.normal(size=(5, 40))).astype(dtype)
    D = term.prox(rng.normal(size=(5, 40)).astype(dtype), 1.0)
    fast, slow = by_atoms(term, A, G, D), by_atoms_slowly(term, A, G, D)
    assert fast.dtype == dtype
    np.testing.assert_allclose(fast, slow, atol=200 * float(np.finfo(dtype).eps) * max(1.0, size))
    assert np.isfinite(term.value(fast))


@pytest.mark.parametrize("k", [15, 16, 17, 50])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_sweeps_over_blocks_of_atoms_are_sweeps_over_atoms(k: int, sweeps: int) -> None:
    rng, term = generator("blocks"), UnitBall()
    H = rng.normal(size=(2 * k, k))
    A, G, D = H.T @ H / len(H), rng.normal(size=(k, 9)), UnitBall().prox(rng.normal(size=(k, 9)), 1.0)
    slow = D
    for _ in range(sweeps):
        slow = by_atoms_slowly(term, A, G + A @ (slow - D), slow)
    np.testing.assert_allclose(by_atoms(term, A, G, D, sweeps), slow, atol=1e-12)


def test_the_sweep_leaves_unused_atoms_alone() -> None:
    rng = generator("unused")
    D = UnitBall().prox(rng.normal(size=(4, 9)), 1.0)
    moved, kind = D.copy(), atom_set(UnitBall())
    assert kind is not None
    sweep_atoms(np.eye(4), rng.normal(size=(4, 9)), moved, kind, np.array([True, False, True, True]))
    assert np.all(np.any(moved != D, axis=1) == [True, False, True, True])


@pytest.mark.parametrize(
    "row",
    [
        np.zeros(5),
        np.full(5, 0.2),
        np.array([1e8, 1e8 - 0.25, 0.0, -1e8, 3.0]),
        np.array([-7.0, -7.0, -7.5, -9.0, -20.0]),
        np.array([2.0]),
    ],
    ids=["zero", "inside", "huge", "negative", "one entry"],
)
def test_the_compiled_projection_on_the_simplex(row: Array) -> None:
    A, D = np.eye(1), np.zeros((1, len(row)))
    moved = by_atoms(Simplex(), A, -row[None], D)
    np.testing.assert_allclose(moved, Simplex().prox(row[None], 1.0), atol=1e-8)


@every_formulation
def test_a_metric_step_with_the_full_gradient_never_raises_the_objective(name: str) -> None:
    problem, D = problem_of(name)
    stats = problem.stats(D, EXACT)
    before = problem.measure(stats, D).objective
    new = descend_surrogate(problem.formulation.dictionary, stats.curvature, stats.gradient, D)
    assert problem.measure(problem.stats(new, EXACT), new).objective < before


def test_the_metric_step_is_exact_where_it_can_be() -> None:
    rng = generator("metric")
    H = rng.normal(size=(20, 3))
    A, G, D = H.T @ H / 20, rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    expected = np.linalg.solve(A + 0.5 * np.eye(3), A @ D - G)
    np.testing.assert_allclose(descend_surrogate(Ridge(0.5), A, G, D), expected, atol=1e-10)


def test_projections_onto_the_simplex_end_where_entries_lie_at_the_threshold() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        point = np.maximum(rng.standard_normal(rng.integers(2, 50)), 0)
        if not np.any(point):
            continue
        point /= np.sum(point)
        moved = point + rng.standard_normal()  # its threshold is the shift, at which the zeros lie
        expected = Simplex().prox(moved[None], 1.0)[0]
        moved = by_atoms(Simplex(), np.eye(1), -moved[None], np.zeros((1, len(moved))))[0]
        np.testing.assert_allclose(moved, expected, atol=1e-14)
        np.testing.assert_allclose(moved, point, atol=1e-14)
