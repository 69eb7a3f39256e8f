"""Laws of `max_time`: on a clock that moves by a fixed time for each block of rows that is coded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from estimator_cases import codes_may_stop_short, corrupted, every_estimator, every_solver, make, rows
from manual_clock import ManualClock
from vrmf.arrays import Array
from vrmf.formulations import Formulation
from vrmf.problem import Problem
from vrmf.running import clock as clocks
from vrmf.running import loop
from vrmf.running.clock import Clock, OutOfTime
from vrmf.sources import as_source
from vrmf.starting import multistart

X = corrupted(rows(400, 6))

#: The blocks of a pass, the seconds that each takes, and those of a pass.
BLOCKS = 16
BLOCK_SECONDS = 0.25
PASS = BLOCKS * BLOCK_SECONDS

budget_may_end_it = pytest.mark.filterwarnings(
    "ignore:.*stopped before it was stationary:sklearn.exceptions.ConvergenceWarning"
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Return a clock on which each block of rows that is coded takes the same time."""
    clock, encode = ManualClock(), Formulation.encode

    def slowly(self: Formulation, data: Array, *args: Any, **options: Any) -> Any:
        clock.now += BLOCK_SECONDS
        return encode(self, data, *args, **options)

    monkeypatch.setattr(Formulation, "encode", slowly)
    monkeypatch.setattr(clocks, "working_seconds", clock.perf_counter)
    monkeypatch.setattr(loop, "working_seconds", clock.perf_counter)
    monkeypatch.setattr(
        "vrmf.sources.local.block_slices",
        lambda count, n_features, dtype: [
            slice(i, min(i + len(X) // BLOCKS, count)) for i in range(0, count, len(X) // BLOCKS)
        ],
    )
    return clock


@codes_may_stop_short
@budget_may_end_it
@every_solver
@every_estimator
def test_a_fit_ends_in_time_with_a_feasible_model(name: str, solver: str, clock: ManualClock) -> None:
    for limit in (0.5, 2.0, 5.0, 10.0, 22.0):
        clock.now = 0.0
        model = make(name, solver=solver, max_time=limit, max_iter=10_000).fit(X)
        assert clock.now <= 1.2 * limit + 1.0
        assert model.stop_reason_ == f"budget: max_time={limit:g} seconds are over"
        assert np.isfinite(model.formulation_.dictionary.value(model.components_))
        if not math.isnan(model.objective_):
            measured = Problem(model.formulation_, as_source(X)).certify(model.components_)
            assert model.objective_ == pytest.approx(measured.objective, rel=1e-2)


def test_without_time_for_a_last_pass_the_best_that_was_measured_is_the_answer(clock: ManualClock) -> None:
    model = make("nmf", solver="batch", max_time=4.5 * PASS, max_iter=10_000).fit(X)
    known = [value for value in model.history_["objective"] if not math.isnan(value)]
    assert len(known) == 4 and model.objective_ == min(known)


def test_a_fit_that_measured_nothing_says_so_by_nan(clock: ManualClock) -> None:
    model = make("nmf", solver="batch", max_time=0.5 * PASS).fit(X)
    assert math.isnan(model.objective_) and math.isnan(model.relative_stationarity_)
    assert model.n_steps_ == 0 and np.isfinite(model.components_).all()
    assert model.transform(X).shape == (len(X), 3)
    model.partial_fit(X)


def test_codes_are_complete_also_when_time_is_over(clock: ManualClock) -> None:
    for limit in (0.5 * PASS, 4.5 * PASS, 1000.0):
        clock.now = 0.0
        model = make("nmf", solver="batch", max_time=limit, max_iter=6)
        H = model.fit_transform(X)
        np.testing.assert_allclose(H, model.transform(X), atol=1e-6 * np.abs(H).max())


def test_records_are_off_the_clock(clock: ManualClock) -> None:
    plain = make("nmf", max_time=15.0, max_iter=10_000).fit(X)
    recorded = make("nmf", max_time=15.0, max_iter=10_000, record_every=1).fit(X)
    assert recorded.n_steps_ == plain.n_steps_
    assert recorded.history_["seconds"] == plain.history_["seconds"]


def test_iterates_end_when_time_is_over(clock: ManualClock) -> None:
    walk = list(make("nmf", max_time=7.5, max_iter=10_000).iterate(X))
    assert clock.now <= 7.5 + BLOCK_SECONDS
    assert [it.step for it in walk] == list(range(len(walk))), "no iterate comes twice"


def test_the_choice_of_a_start_is_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, steps = ManualClock(), multistart.minimise_surrogate

    def slowly(*args: Any) -> Any:
        clock.now += 1.0
        return steps(*args)

    monkeypatch.setattr(multistart, "minimise_surrogate", slowly)
    monkeypatch.setattr(clocks, "working_seconds", clock.perf_counter)
    with pytest.warns(ConvergenceWarning, match="stopped before it was stationary"):
        model = make("nmf", init="auto", max_time=2.0, tol=1e-6).fit(X)
    assert clock.now <= 3.0 and np.isfinite(model.components_).all()


def test_a_stopped_clock_stands_still(clock: ManualClock) -> None:
    of_fit = Clock(limit=10.0)
    with of_fit.stopped():
        clock.now += 100.0
        of_fit.check()
    assert of_fit.seconds == 0.0
    clock.now += 10.0
    with pytest.raises(OutOfTime, match="max_time=10 seconds are over"):
        of_fit.check()
