"""Callbacks of scikit-learn: they see each epoch of a fit, and may end it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrmf
from estimator_cases import rows
from vrmf.estimators import ESTIMATORS
from vrmf.running.rules import Reason

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from version 1.9 on")

X = np.abs(rows(80))


class Recording:
    """Records the calls that it gets, and asks to stop after so many epochs."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.events: list[tuple[str, str]] = []
        self.scores: list[float] = []
        self.stop_after = stop_after

    def setup(self, estimator: Any, context: Any) -> None:
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any, fitted_estimator: Any) -> bool:
        self.events.append(("end", context.task_name))
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X))
        return context.task_name == "epoch" and self.count("end", "epoch") == self.stop_after

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append(("teardown", context.task_name))

    def count(self, *event: str) -> int:
        return self.events.count(event)  # type: ignore[arg-type]


def model(**options: Any) -> Any:
    given = {"n_components": 3, "random_state": 0, "max_iter": 6, "tol": 0, "n_jobs": 1}
    return vrmf.NMF(**(given | options))


@pytest.mark.parametrize("solver", ["vr", "smm", "sgd", "batch"])
def test_callbacks_see_every_epoch(solver: str) -> None:
    told = Recording()
    fit = model(solver=solver).set_callbacks(told).fit(X)
    assert told.events[:2] == [("setup", "fit"), ("begin", "fit")]
    assert told.events[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert told.count("begin", "epoch") == told.count("end", "epoch") == fit.n_iter_ == 6
    assert told.scores[-1] == fit.score(X)


def test_callbacks_change_nothing() -> None:
    seen, unseen = model().set_callbacks(Recording()).fit(X), model().fit(X)
    np.testing.assert_array_equal(seen.components_, unseen.components_)
    assert not hasattr(seen, "_callback_fit_ctx")


def test_the_model_that_a_callback_sees_is_that_of_a_shorter_fit() -> None:
    told = Recording()
    model(solver="batch").set_callbacks(told).fit(X)
    for epochs in (1, 4):
        assert told.scores[epochs - 1] == model(solver="batch", max_iter=epochs).fit(X).score(X)


def test_a_callback_ends_a_fit_without_a_warning() -> None:
    fit = model(tol=1e-12, solver="batch").set_callbacks(Recording(stop_after=2)).fit(X)
    assert fit.n_iter_ == 2 and fit.stop_reason_.startswith("callback")
    np.testing.assert_array_equal(fit.components_, model(solver="batch", max_iter=2).fit(X).components_)


def test_a_fit_that_a_callback_ended_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    kept: Any = {"checkpoint": tmp_path / "c", "checkpoint_every": 1e9}  # saved at its end alone
    assert model(**kept).set_callbacks(Recording(stop_after=2)).fit(X).n_iter_ == 2
    told = Recording()
    resumed, uninterrupted = model(**kept).set_callbacks(told).fit(X), model().fit(X)
    assert told.count("end", "epoch") == 4, "the first two epochs are not done again"
    np.testing.assert_array_equal(resumed.components_, uninterrupted.components_)
    assert resumed.history_["objective"][-1] == uninterrupted.history_["objective"][-1]


def test_every_callback_sees_the_epoch_at_which_one_of_them_asks_to_stop() -> None:
    first, second = Recording(stop_after=2), Recording()
    assert model().set_callbacks(first, second).fit(X).n_iter_ == 2
    assert first.count("end", "epoch") == second.count("end", "epoch") == 2


@pytest.mark.slow
def test_a_path_of_stages_has_epochs_too() -> None:
    told = Recording()
    fit = vrmf.RobustPCA(random_state=0).set_callbacks(told).fit(X)
    assert told.count("end", "epoch") >= fit.n_iter_
    stopped = vrmf.RobustPCA(random_state=0).set_callbacks(Recording(stop_after=3)).fit(X)
    assert stopped.n_iter_ == 3 and stopped.decompose(X)[0].shape == X.shape


def test_callbacks_do_not_change_the_codes_of_a_fit() -> None:
    codes = model().set_callbacks(Recording()).fit_transform(X)
    np.testing.assert_array_equal(codes, model().fit_transform(X))


def test_callbacks_are_torn_down_when_a_fit_fails() -> None:
    class Failing(Recording):
        def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
            if context.task_name == "epoch":
                raise RuntimeError("no more")

    told = Failing()
    with pytest.raises(RuntimeError, match="no more"):
        model().set_callbacks(told).fit(X)
    assert told.events[-1] == ("teardown", "fit")


def test_a_search_passes_callbacks_to_every_fit() -> None:
    from sklearn.model_selection import GridSearchCV

    told = Recording()
    search = GridSearchCV(model(max_iter=2).set_callbacks(told), {"n_components": [2, 3]}, cv=2)
    search.fit(X)
    assert told.count("end", "epoch") == 2 * (2 * 2 + 1)


def test_the_progress_bar_of_scikit_learn_shows_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        model().set_callbacks(ProgressBar()).fit(X)
    assert "NMF - fit" in capsys.readouterr().out


def test_the_monitor_of_scikit_learn_logs_every_epoch() -> None:
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring=None)  # it scores only where there is a target
    fit = model(solver="batch").set_callbacks(monitor).fit(X)
    logged = [entry["task_name"] for entry in monitor.get_logs().data]
    assert logged.count("fit") == 1 and logged.count("epoch") == fit.n_iter_ == 6


def test_saved_models_have_no_callbacks(tmp_path: Any) -> None:
    fit = model().set_callbacks(Recording()).fit(X)
    vrmf.save(fit, tmp_path / "m")
    assert not hasattr(vrmf.load(tmp_path / "m"), "_skl_callbacks")


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(TypeError, match="callbacks must be instances"):
        model().set_callbacks(print)


def test_a_stop_that_a_callback_asked_for_is_neither_convergence_nor_failure() -> None:
    from vrmf.estimators.callbacks import STOPPED

    assert isinstance(STOPPED, Reason) and not STOPPED.converged and not STOPPED.failed


class Looking(Recording):
    """Keeps what it sees of the model after each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any, fitted_estimator: Any) -> bool:
        if context.task_name == "epoch" and fitted_estimator is not None:
            self.seen.append(fitted_estimator)
        return False


@pytest.mark.parametrize("name", ["robust-pca", "robust-nmf", "max-norm-decomposition", "nmf"])
def test_a_callback_sees_all_that_a_fit_leaves(name: str) -> None:
    rng = np.random.default_rng(0)
    clean = rng.random((120, 2)) @ rng.random((2, 30)) + 0.01 * rng.random((120, 30))
    is_hit = rng.random(clean.shape) < 0.05
    told, kind = Looking(), ESTIMATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        given: dict[str, Any] = {"n_components": 2, "random_state": 0, "n_jobs": 1}
        fit = kind(**given).set_callbacks(told).fit(clean + 5 * is_hit)
    public = {one for one in vars(fit) if one.endswith("_") and not one.startswith("_")}
    for seen in told.seen:
        assert public <= set(vars(seen))
        if hasattr(fit, "noise_"):
            assert seen.noise_ > 0
            assert seen.outlier_alpha_ == seen.stream_.weights["outlier_alpha"]
    if name == "robust-pca":
        last = told.seen[-1]
        assert last.noise_ == pytest.approx(fit.noise_, rel=0.2) and last.rank_ == fit.rank_
        assert np.mean(last.outlier_mask(clean + 5 * is_hit) == is_hit) > 0.98


def test_the_weights_that_a_callback_sees_are_those_of_a_shorter_fit() -> None:
    told, rows_hit = Looking(), np.where(rows(80) > 1.5, 20.0, rows(80))
    given: dict[str, Any] = {"random_state": 0, "tol": 0, "n_jobs": 1, "solver": "batch", "n_components": 2}
    vrmf.RobustPCA(max_iter=5, **given).set_callbacks(told).fit(rows_hit)
    for epochs in (1, 3):
        shorter = vrmf.RobustPCA(max_iter=epochs, **given).fit(rows_hit)
        seen = told.seen[epochs - 1]
        assert (seen.alpha_, seen.outlier_alpha_) == (shorter.alpha_, shorter.outlier_alpha_)
        np.testing.assert_array_equal(seen.components_, shorter.components_)
