"""The public contract of the estimators: fitted attributes, histories, stopping, streams and scales."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from estimator_cases import (
    CENTERING,
    EIGHT,
    ROTATING,
    WITH_OUTLIERS,
    automatic,
    codes_may_stop_short,
    corrupted,
    cosines,
    every_estimator,
    every_solver,
    first_dictionary,
    fitted,
    make,
    rows,
    stream_of,
)
from vrmf import (
    NMF,
    DictionaryLearning,
    GroupDictionaryLearning,
    MatrixFactorization,
    RobustPCA,
    SmoothDictionaryLearning,
)
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.formulations import Formulation
from vrmf.solvers import SGD, SMM, SOLVERS, VR, AbstractSolver, Algorithm1, Batch
from vrmf.starting.initial import NAMES as STARTS
from vrmf.terms import L1, AbstractRowTerm, Box, Free, Ridge, UnitBall, chain_laplacian

X = corrupted(rows())
N, K, D_ = len(X), 3, X.shape[1]
COLUMNS = [
    "step",
    "passes",
    "seconds",
    "stage",
    "n_components",
    "objective",
    "stationarity",
    "relative_stationarity",
]


def objective_of(model: AbstractFactorizer, D: Array, data: Array = X) -> float:
    """Return the objective that the fitted model's formulation gives to another dictionary."""
    other = copy.copy(model)
    other.components_ = D
    return other.objective(data)


# Fitted attributes ---------------------------------------------------------------------------


#: Solvers with one step an epoch on these rows.
ONE_STEP = ("batch", "algorithm1")


@every_solver
@every_estimator
def test_fitted_attributes(name: str, solver: str) -> None:
    model = fitted(name, solver)
    assert model.components_.shape == (K, D_) and model.components_.dtype == np.float64
    assert np.isfinite(model.components_).all()
    measured = (model.objective_, model.stationarity_, model.relative_stationarity_)
    for number in (*measured, model.n_passes_):
        assert isinstance(number, float) and math.isfinite(number) and number >= 0
    for count in (model.n_iter_, model.n_steps_, model.n_features_in_, model.n_samples_seen_):
        assert isinstance(count, int)
    assert (model.n_features_in_, model.n_samples_seen_, model.n_iter_) == (D_, N, 2)
    by_batches = 2 * N / 3  # a batch has 3 of 24 rows
    if solver == "vr":
        assert by_batches <= model.n_steps_ <= 2 * by_batches, "the opening takes two passes at most"
    else:
        assert model.n_steps_ == (2 if solver in ONE_STEP else by_batches)
    assert model.stop_reason_ == "budget: max_iter=2 epochs are done"
    assert model.solver_ == SOLVERS[solver]()
    assert isinstance(model.formulation_, Formulation)
    assert not hasattr(model, "mean_")


@every_solver
@every_estimator
def test_history_is_a_table(name: str, solver: str) -> None:
    model = fitted(name, solver)
    frame = pandas.DataFrame(model.history_)
    assert list(frame.columns) == [*COLUMNS, *["own_stationarity"] * (solver == "algorithm1")]
    assert list(frame["step"]) == list(range(model.n_steps_ + 1))
    assert frame["passes"].iloc[0] == 0 and frame["passes"].iloc[-1] == model.n_passes_
    assert frame["passes"].is_monotonic_increasing
    assert frame["seconds"].iloc[0] == 0 and frame["seconds"].is_monotonic_increasing
    assert frame["seconds"].iloc[-1] > 0
    last = frame.iloc[-1]
    if last["objective"] == model.objective_:
        assert last["stationarity"] == model.stationarity_
        assert last["relative_stationarity"] == model.relative_stationarity_
    else:  # the best dictionary that was measured is reported where the last iterate is worse
        assert solver in ("vr", "batch") and last["objective"] > model.objective_
    for column in ("stationarity", "relative_stationarity"):
        assert (frame["objective"].isna() == frame[column].isna()).all()
    known = set(frame["step"][frame["objective"].notna()])
    first = model.n_steps_ - 16
    anchors = {0, 1} if solver in ONE_STEP else {first, first + 8} if solver == "vr" else set()
    assert known == anchors | {model.n_steps_}, "known for free: anchors, batch steps, and the end"


@every_estimator
def test_the_last_known_objective_is_below_the_first(name: str) -> None:
    objective = fitted(name, "batch").history_["objective"]
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("name", [*WITH_OUTLIERS, "nmf"])
@every_solver
def test_the_objective_falls_under_every_solver(name: str, solver: str) -> None:
    model = fitted(name, solver, max_iter=5)
    assert model.objective_ < objective_of(model, first_dictionary(make(name), X))


@every_solver
@every_estimator
def test_components_are_feasible(name: str, solver: str) -> None:
    model = fitted(name, solver)
    D = model.components_
    assert math.isfinite(model.formulation_.dictionary.value(D))
    norms = np.linalg.norm(D, axis=1)
    if name in ("dictionary-learning", "group-dictionary-learning", "robust-nmf", "matrix-factorization"):
        assert norms.max() <= 1 + 1e-10
    if name in ("nmf", "smooth-dictionary-learning", "robust-nmf"):
        assert D.min() >= -1e-10
    if name in ("nmf", "smooth-dictionary-learning"):
        assert D.sum(axis=1) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("name", ROTATING)
def test_components_that_rotate_are_orthogonal_and_ordered(name: str) -> None:
    D = fitted(name).components_
    gram = D @ D.T
    norms = np.sqrt(np.diag(gram))
    assert np.abs(gram - np.diag(np.diag(gram))).max() <= 1e-10 * gram.max()
    assert np.all(np.diff(norms) <= 0)
    assert np.all(D[np.arange(K), np.abs(D).argmax(axis=1)] >= 0)


# Inference ------------------------------------------------------------------------------------------


@every_solver
@every_estimator
def test_objective_and_scores_agree(name: str, solver: str) -> None:
    model = fitted(name, solver)
    assert model.objective(X) == pytest.approx(model.objective_, rel=1e-6)
    assert model.score(X) == -model.objective(X)
    losses = -model.score_samples(X)
    assert losses.shape == (N,) and np.all(losses >= 0)
    penalty = model.formulation_.dictionary.value(model.components_)
    assert losses.mean() + penalty == pytest.approx(model.objective_, rel=1e-6)
    assert -model.score_samples(X[5:6])[0] == pytest.approx(losses[5], rel=1e-6)


@every_estimator
def test_losses_are_what_the_formulation_says(name: str) -> None:
    model = fitted(name)
    H = model.transform(X)
    L, S = model.decompose(X)
    by_hand = 0.5 * np.sum((X - L - S) ** 2, axis=1) + model.formulation_.code.row_values(H)
    if name in WITH_OUTLIERS:
        by_hand += model.formulation_.outliers.row_values(S)
    assert -model.score_samples(X) == pytest.approx(by_hand, rel=1e-6)


@every_estimator
def test_no_other_codes_are_better(name: str) -> None:
    model = fitted(name)
    H, losses = model.transform(X), -model.score_samples(X)
    rng = np.random.default_rng(3)
    for size in (1e-3, 1e-1):
        for _ in range(5):
            other = model.formulation_.code.prox(
                H + size * np.abs(H).max() * rng.normal(size=H.shape), 1e-9
            )
            assert np.all(model.formulation_.losses(X, model.components_, other) >= losses * (1 - 1e-9))


@every_estimator
def test_low_rank_part_is_the_reconstruction(name: str) -> None:
    model = fitted(name)
    L, S = model.decompose(X)
    assert L.shape == S.shape == X.shape
    assert model.inverse_transform(model.transform(X)) == pytest.approx(L, abs=1e-12 * np.abs(L).max())
    assert np.linalg.matrix_rank(L, tol=1e-8 * np.abs(L).max()) <= K
    assert (S != 0).any() if name in WITH_OUTLIERS else not S.any()


@pytest.mark.parametrize("name", WITH_OUTLIERS)
def test_what_is_left_is_at_most_the_weight_of_outliers(name: str) -> None:
    options = {"max_outlier": 1e3} if name == "robust-nmf" else {}
    model = make(name, outlier_alpha=0.3, **options).fit(X)
    L, S = model.decompose(X)
    left = X - L - S
    assert np.abs(left).max() <= 0.3 * (1 + 1e-9)
    assert left[S != 0] == pytest.approx(0.3 * np.sign(S[S != 0]), rel=1e-9)
    assert (S != 0).any() and (S == 0).any()


def test_outliers_stay_below_their_bound() -> None:
    S = make("robust-nmf", outlier_alpha=0.3, max_outlier=0.5).fit(X).decompose(X)[1]
    assert np.abs(S).max() == 0.5


# Step by step ---------------------------------------------------------------------------------------


@every_solver
@every_estimator
def test_iterate_walks_the_path_of_fit(name: str, solver: str) -> None:
    model, reference = make(name, solver=solver), fitted(name, solver)
    before = dict(vars(model))
    walk = list(model.iterate(X))
    assert vars(model) == before, "iterate changed the model"
    assert [it.step for it in walk] == list(range(reference.n_steps_ + 1))
    assert [it.passes for it in walk] == reference.history_["passes"]
    seconds = [it.seconds for it in walk]
    assert seconds[0] == 0 and seconds == sorted(seconds)
    end = objective_of(reference, walk[-1].D)
    if name in ROTATING:
        better = solver == "vr" and end > reference.objective_
        assert better or end == pytest.approx(reference.objective_, rel=1e-6)
    elif not np.array_equal(walk[-1].D, reference.components_):
        # VR may end on an iterate that is worse than its last anchor; then fit reports the anchor.
        assert solver == "vr"
        assert reference.objective_ < end


def test_iterate_does_not_change_a_fitted_model() -> None:
    model = make("robust-pca", center=True).fit(X)
    before = copy.deepcopy(vars(model))
    for _ in zip(model.iterate(2 * X + 1), range(5), strict=False):
        pass
    assert vars(model).keys() == before.keys()
    assert np.array_equal(model.components_, before["components_"])
    assert np.array_equal(model.mean_, before["mean_"])


def test_iterates_can_be_collected() -> None:
    walk = list(make("nmf").iterate(X))
    assert len({it.D.tobytes() for it in walk}) == len(walk)


def test_iterate_ends_where_fit_ends() -> None:
    options = {"solver": "smm", "record_every": 1, "tol": 5e-2, "max_iter": 40}
    model = make("nmf", **options).fit(X)
    assert model.stop_reason_.startswith("stationary")
    last = list(make("nmf", **options).iterate(X))[-1]
    assert last.step == model.n_steps_
    np.testing.assert_array_equal(last.D, model.components_)


# Counting -------------------------------------------------------------------------------------------


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of rows of each code problem that is solved."""
    counted: list[int] = []
    encode = Formulation.encode

    def counting(self: Formulation, data: Array, *args: Any, **options: Any) -> Any:
        counted.append(len(data))
        return encode(self, data, *args, **options)

    monkeypatch.setattr(Formulation, "encode", counting)
    return counted


@pytest.mark.parametrize(
    "solver",
    [VR(), VR(cache_megabytes=0), Algorithm1(), VR(batch_size=7, inner_steps=2), SMM(), SGD(), Batch()],
    ids=["vr", "vr-without-cache", "algorithm1", "vr-odd", "smm", "sgd", "batch"],
)
@pytest.mark.parametrize("name", ["nmf", "robust-pca"])
def test_passes_count_the_code_problems_solved(
    name: str, solver: AbstractSolver, solved: list[int]
) -> None:
    model = make(name, solver=solver).fit(X)
    measured_at_the_end = N if name == "nmf" else 2 * N  # the noise is looked at in a sample of the rows
    assert model.n_passes_ * N == pytest.approx(sum(solved) - measured_at_the_end)


@every_estimator
def test_fit_transform_solves_no_code_twice(name: str, solved: list[int]) -> None:
    make(name, solver="batch").fit(X)
    by_fit = sum(solved)
    make(name, solver="batch").fit_transform(X)
    assert sum(solved) == 2 * by_fit


# Records --------------------------------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("name", ["dictionary-learning", "robust-pca"])
def test_every_epoch_is_recorded_without_changing_the_path(name: str, solver: str) -> None:
    model = make(name, solver=solver, record_every=1, max_iter=3).fit(X)
    frame = pandas.DataFrame(model.history_)
    walk = list(make(name, solver=solver, max_iter=3).iterate(X))
    ends = [0] + [new.step for old, new in itertools.pairwise(walk) if new.epoch > old.epoch]
    epochs = frame[frame["step"].isin(ends)]
    assert len(epochs) == 4 and epochs.notna().all(axis=None)
    for step, objective in zip(epochs["step"], epochs["objective"], strict=True):
        assert objective == pytest.approx(objective_of(model, walk[step].D), rel=1e-6)
    plain = make(name, solver=solver, max_iter=3).fit(X)
    assert np.array_equal(plain.components_, model.components_), "recording changed the path"
    assert plain.n_passes_ == model.n_passes_


def test_every_second_epoch_is_recorded() -> None:
    model = make("nmf", solver="smm", record_every=2, max_iter=5).fit(X)
    known = np.flatnonzero(~np.isnan(model.history_["objective"]))
    assert list(known) == [0, 16, 32, 40]


# Why it stopped -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["vr", "batch"])
@every_estimator
def test_a_stationary_fit_says_so_and_does_not_warn(name: str, solver: str) -> None:
    model = make(name, solver=solver, tol=1e-3, max_iter=200).fit(X)
    assert model.stop_reason_.startswith("stationary: a full step promises to lower the objective by ")
    assert "tol=0.001" in model.stop_reason_
    known = [value for value in model.history_["relative_stationarity"] if not math.isnan(value)]
    assert known[-1] == model.relative_stationarity_ <= 1e-3
    assert model.n_iter_ < 200


@pytest.mark.parametrize("data", [load_digits().data[:200], load_iris().data], ids=["digits", "iris"])
@pytest.mark.parametrize("solver", ["smm", "sgd"])
@pytest.mark.parametrize("kind", [NMF, DictionaryLearning])
def test_stochastic_solvers_settle_on_ordinary_data_without_a_warning(
    kind: Any, solver: str, data: Array
) -> None:
    model = kind(4, solver=solver, random_state=0, n_jobs=1).fit(data)
    assert model.stop_reason_.startswith("settled") and model.n_iter_ in (8, 16, 32, 64, 128, 256)
    promised = model.relative_stationarity_
    assert f"a full step promises {promised:.1e} more" in model.stop_reason_ and promised > model.tol
    history = pandas.DataFrame(model.history_).dropna()
    assert list(history["passes"].astype(int)) == [2**i for i in range(1, len(history) + 1)]
    before, after = history["objective"].iloc[-2:]
    assert 0 <= before - after <= 1e-3 * max(after, np.mean(np.sum(data**2, axis=1)) / 8)
    finer = kind(4, solver=solver, random_state=0, n_jobs=1, tol=0, max_iter=2 * model.n_iter_).fit(data)
    assert finer.objective_ < model.objective_, "it has settled, but it could go on"


def test_a_resumed_fit_settles_as_an_uninterrupted_one(tmp_path: Any) -> None:
    options: dict[str, Any] = {"solver": "smm", "random_state": 0, "n_jobs": 1}
    reference = NMF(4, **options).fit(load_iris().data)
    for budget in (3, 4, 300):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = NMF(4, max_iter=budget, checkpoint=tmp_path / "c", **options).fit(load_iris().data)
    assert model.stop_reason_ == reference.stop_reason_
    np.testing.assert_array_equal(model.components_, reference.components_)
    np.testing.assert_array_equal(model.history_["objective"], reference.history_["objective"])


@pytest.mark.parametrize("solver", ["smm", "sgd"])
def test_records_let_tol_stop_a_stochastic_solver(solver: str) -> None:
    model = make("nmf", solver=solver, tol=1e-2, max_iter=100, record_every=1).fit(X)
    assert model.stop_reason_.startswith("stationary")
    assert model.n_iter_ < 100
    assert model.relative_stationarity_ <= 1e-2


def test_rounding_is_the_floor_of_tol() -> None:
    model = DictionaryLearning(2, tol=1e-300, solver="batch", max_iter=2000, alpha=0.1, random_state=0).fit(
        X
    )
    assert model.stop_reason_.startswith("stationary to rounding")


@every_solver
def test_a_spent_budget_of_epochs_warns(solver: str) -> None:
    model = make("nmf", solver=solver, tol=1e-9)
    with pytest.warns(
        ConvergenceWarning, match=r"NMF stopped before it was stationary \(budget: max_iter=2"
    ):
        model.fit(X)
    assert model.stop_reason_ == "budget: max_iter=2 epochs are done"


@every_solver
def test_a_spent_budget_of_seconds_warns(solver: str) -> None:
    model = make("nmf", solver=solver, tol=1e-9, max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match=r"budget: max_time=1e-09 seconds are over"):
        model.fit(X)
    assert model.stop_reason_ == "budget: max_time=1e-09 seconds are over"
    assert model.n_steps_ == 0, "an unfinished step is dropped"
    assert model.set_params(tol=0).fit(X).stop_reason_.startswith("budget: max_time")


DIVERGING: dict[str, AbstractSolver] = {
    "vr": Algorithm1(step_size=1e20),
    "vr-huge": Algorithm1(step_size=1e300),
    "sgd": SGD(scale=1e12, offset=1.0),
    "sgd-huge": SGD(scale=1e300, offset=1.0),
}


def diverging(solver: AbstractSolver) -> MatrixFactorization:
    """Return a model whose codes cannot shrink, so that steps too long grow without bound."""
    terms: dict[str, Any] = {"code": Box(0.5, 1.0), "dictionary": Free()}
    return MatrixFactorization(2, **terms, solver=solver, random_state=0, max_iter=50, n_jobs=1)


@pytest.mark.parametrize("kind", DIVERGING)
def test_divergence_is_an_outcome(kind: str) -> None:
    model = diverging(DIVERGING[kind])
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X)
    assert model.stop_reason_.startswith("diverged") and "step_size" in model.stop_reason_
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("kind", DIVERGING)
def test_iterate_ends_at_divergence(kind: str) -> None:
    walk = list(diverging(DIVERGING[kind]).iterate(X))
    assert walk[0].step == 0 and walk[-1].epoch < 50


def test_an_automatic_step_does_not_diverge() -> None:
    model = diverging(VR()).set_params(tol=0, max_iter=5).fit(X)
    assert model.objective_ < objective_of(model, first_dictionary(model, X))


def test_given_steps_that_are_too_long_are_shortened() -> None:
    for solver in (VR(step_size=1e3), Batch(step_size=1e3)):
        model = make("robust-pca", solver=solver, max_iter=20).fit(X)
        assert model.objective_ < objective_of(model, first_dictionary(model, X))


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 4), (2, 2), (True, 4)])
def test_verbose_prints_epochs(verbose: int, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    make("nmf", verbose=verbose, max_iter=4).fit(X)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines
    assert all(line.startswith("[NMF] epoch ") and "passes" in line for line in printed)


# Streams --------------------------------------------------------------------------------------------

STREAM = corrupted(rows(n=42, d=6))


def batches() -> list[Array]:
    """Cut the rows into pieces of 1, 3 and 17."""
    return np.split(STREAM, np.cumsum([1, 3, 17, 1, 3]))


@pytest.mark.parametrize(("solver", "runs"), [("vr", SMM), ("sgd", SGD)])
@codes_may_stop_short
@every_estimator
def test_partial_fit_learns_from_batches_of_any_size(name: str, solver: str, runs: type) -> None:
    # The automatic step of SGD comes from the first batch, which must be a typical one.
    pieces = batches()[::-1] if solver == "sgd" else batches()
    model = make(name, solver=solver).partial_fit(pieces[0])
    first = model.components_.copy()
    assert model.n_samples_seen_ == len(pieces[0])
    for piece in (pieces * 3)[1:]:
        assert model.partial_fit(piece) is model
    assert isinstance(model.solver_, runs)
    assert (model.n_steps_, model.n_samples_seen_) == (18, 3 * len(STREAM))
    assert model.stop_reason_ == f"stream: {3 * len(STREAM)} rows seen"
    assert model.components_.shape == (K, D_) and np.isfinite(model.components_).all()
    assert math.isfinite(model.formulation_.dictionary.value(model.components_))
    # The automatic steps of SGD come from the first batch alone, and may be somewhat too long.
    slack = 1.05 if isinstance(model.solver_, SGD) else 1.0
    assert model.objective(STREAM) < slack * objective_of(model, first, STREAM)
    assert model.transform(STREAM).shape == (len(STREAM), K)


def test_partial_fit_keeps_a_suitable_solver_and_replaces_others() -> None:
    for solver in (SMM(forgetting=2.0, sweeps=3), SGD(scale=5.0)):
        assert make("nmf", solver=solver).partial_fit(X).solver_ == solver
    for other in (VR(batch_size=5), Batch(), "vr", "batch"):
        model = make("nmf", solver=other).partial_fit(X)
        assert model.solver_ == SMM(forgetting=5.0) and model.solver == other


@pytest.mark.parametrize("solver", [SMM(batch_size=50), SGD(batch_size=50)], ids=["smm", "sgd"])
def test_batches_of_a_stream_may_be_smaller_than_the_batch_size(solver: AbstractSolver) -> None:
    model = make("nmf", solver=solver).partial_fit(X[:1]).partial_fit(X[1:4])
    assert model.n_samples_seen_ == 4


@pytest.mark.parametrize("forgetting", [0.0, 5.0])
def test_n_inside_the_penalty_is_the_number_of_rows_remembered(forgetting: float) -> None:
    solver = SMM(forgetting=forgetting)
    model = RobustPCA(2, alpha=6.0, outlier_alpha=0.5, solver=solver, random_state=0)
    for batch, seen in zip(batches(), (1, 4, 21, 22, 25, 42), strict=True):
        model.partial_fit(batch)
        remembered = stream_of(model).state.weight
        assert remembered == seen if forgetting == 0 else remembered <= seen
        assert model.formulation_.dictionary == Ridge(6.0 / remembered)
        assert model.formulation_.code == Ridge(6.0) and model.formulation_.outliers == L1(0.5)


def test_a_stream_weights_batches_by_their_rows() -> None:
    """With ψ = (α/2n)‖D‖² SMM's dictionary is D = (A + α I)⁻¹ B, A and B sums over all rows so far."""
    alpha, D = 2.0, np.random.default_rng(0).normal(size=(2, D_))
    model = RobustPCA(2, alpha=alpha, outlier_alpha=0.5, init=D, solver=SMM(coder=Coder(1e-10)))
    A, B = np.zeros((2, 2)), np.zeros((2, D_))
    for batch in batches():
        model.partial_fit(batch)
        terms = model.formulation_
        H = terms.encode(batch, Atoms(D), Coder(1e-10)).H
        R = terms.outliers.prox(batch - H @ D, 1.0)
        A, B = A + H.T @ H, B + H.T @ (batch - R)
        D = np.linalg.solve(A + alpha * np.eye(2), B)
        assert model.components_ == pytest.approx(D, rel=1e-6, abs=1e-8)


@every_estimator
def test_partial_fit_goes_on_from_fit(name: str) -> None:
    model = make(name, solver="batch").fit(X)
    D = model.components_
    formulation, objective = model.formulation_, model.objective_
    model.partial_fit(X[:2])
    assert model.n_samples_seen_ == N + 2
    assert model.formulation_.code == formulation.code, "two rows more do not change the scale"
    moved = np.linalg.norm(model.components_ - D) / np.linalg.norm(D)
    far = np.linalg.norm(make(name).partial_fit(X[:2]).components_ - D) / np.linalg.norm(D)
    assert 0 < moved < far
    model.formulation_ = formulation  # in streams n is the number of rows that are remembered
    assert model.objective(X) < 1.2 * objective


def test_fit_after_partial_fit_starts_afresh() -> None:
    model = make("nmf").partial_fit(X[:5])
    assert np.array_equal(model.fit(X).components_, fitted("nmf").components_)
    assert model.n_samples_seen_ == N


# Centring -------------------------------------------------------------------------------------------


@codes_may_stop_short
@pytest.mark.parametrize("name", CENTERING)
def test_a_shift_of_centred_data_shifts_the_low_rank_part_only(name: str) -> None:
    shift = np.arange(1.0, 1 + D_) * 3
    # Rows that are explained equally badly tie, and rounding would choose among them.
    options: dict[str, Any] = {"center": True, "solver": VR(reseed=False)}
    tol = 1e-3 if name == "max-norm-decomposition" else 1e-5
    one, other = make(name, **options).fit(X), make(name, **options).fit(X + shift)
    assert one.mean_ == pytest.approx(X.mean(axis=0)) and other.mean_ == pytest.approx(one.mean_ + shift)
    assert other.components_ == pytest.approx(one.components_, abs=tol / 10 * np.abs(one.components_).max())
    (L, S), (shifted, outliers) = one.decompose(X), other.decompose(X + shift)
    size = np.abs(X).max()
    assert shifted == pytest.approx(L + shift, abs=tol * size)
    assert outliers == pytest.approx(S, abs=tol * size)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-5)


@pytest.mark.parametrize("name", CENTERING)
def test_centring_is_subtracting_the_mean_first(name: str) -> None:
    centred = make(name, center=True).fit(X)
    plain = make(name).fit(X - X.mean(axis=0))
    assert np.array_equal(centred.components_, plain.components_)
    assert centred.decompose(X)[0] == pytest.approx(plain.decompose(X - X.mean(axis=0))[0] + X.mean(axis=0))
    codes = centred.transform(X)
    assert centred.inverse_transform(codes) == pytest.approx(codes @ centred.components_ + X.mean(axis=0))
    assert centred.objective(X) == pytest.approx(centred.objective_, rel=1e-6)


def test_the_mean_is_that_of_the_fit() -> None:
    model = make("robust-pca", center=True).fit(X)
    L = model.decompose(X)[0]
    assert np.array_equal(model.set_params(center=False).decompose(X)[0], L), "a parameter is not the fit"
    assert not hasattr(model.fit(X), "mean_")
    assert model.set_params(center=True).decompose(X)[0].shape == X.shape


# Starting points ------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [name for name in STARTS if name != "ones"])
@every_estimator
def test_named_starts_are_feasible_and_of_full_rank(name: str, init: str) -> None:
    D = first_dictionary(make(name, init=init), X)
    assert D.shape == (K, D_) and D.dtype == np.float64
    assert math.isfinite(fitted(name).formulation_.dictionary.value(D))
    assert np.linalg.matrix_rank(D) == K, "atoms must differ in direction"
    assert (
        not np.array_equal(D, first_dictionary(make(name, init=init, random_state=5), X)) or "svd" in init
    )


@pytest.mark.parametrize("init", ["data", "spread"])
@every_estimator
def test_a_start_from_the_data_is_rows_of_them(name: str, init: str) -> None:
    clean = rows(n=30)  # nothing to clip
    clean[7] = 0
    D = first_dictionary(make(name, init=init), clean)
    assert cosines(D, np.delete(clean, 7, axis=0)).max(axis=1) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", WITH_OUTLIERS)
def test_the_start_of_robust_models_is_clipped(name: str) -> None:
    wild = rows(n=30)
    wild[:, 2] = np.where(np.arange(30) % 3 == 0, 1e6, wild[:, 2])
    models = [make(name, init="auto", random_state=seed) for seed in range(5)]
    D = np.concatenate([first_dictionary(model, wild) for model in models])
    assert np.abs(D[:, 2]).max() <= 10 * np.median(np.abs(D))


@every_estimator
def test_a_given_start_is_taken_as_it_is(name: str) -> None:
    D = fitted(name, "batch").components_
    assert np.array_equal(first_dictionary(make(name, init=D), X), D)
    assert np.array_equal(first_dictionary(make(name, init=D.tolist()), X), D)


# Where SMM and the default of VR update one atom after the other, they break the tie.
EQUAL: list[tuple[str, Any]] = [
    *((name, solver) for name in ("robust-pca", "low-rank-representation") for solver in SOLVERS),
    *(
        (name, solver)
        for name in ("nmf", "smooth-dictionary-learning")
        for solver in (Algorithm1(), "sgd", "batch")
    ),
]


@pytest.mark.parametrize(("name", "solver"), EQUAL)
def test_equal_atoms_stay_equal_and_warn(name: str, solver: Any) -> None:
    with pytest.warns(UserWarning, match=r"init='ones'.*rank one"):
        # A ridge that counts makes codes unique, and the codes of equal atoms equal.
        ridge = {"alpha": 0.1} if "robust" not in name and "low-rank" not in name else {}
        D = make(name, init="ones", solver=solver, **ridge).fit(X).components_
    singular = np.linalg.svd(D, compute_uv=False)
    assert singular[1] <= 1e-6 * singular[0]


# Dead atoms -----------------------------------------------------------------------------------------

RESEEDING = ("dictionary-learning", "nmf", "robust-nmf")


def with_a_dead_atom() -> tuple[Array, Array]:
    """Return rows that vanish in the last feature, and atoms of which the last is that feature."""
    data = X.copy()
    data[:, -1] = 0
    D = np.concatenate([data[:2] / data[:2].sum(axis=1, keepdims=True), np.eye(D_)[-1:]])
    return data, D


RESEEDS = [name for name in SOLVERS if name != "algorithm1"]


@pytest.mark.parametrize("solver", [*RESEEDS, VR(cache_megabytes=0)], ids=[*RESEEDS, "vr-without-cache"])
@pytest.mark.parametrize("name", RESEEDING)
def test_dead_atoms_are_replaced(name: str, solver: Any) -> None:
    data, D = with_a_dead_atom()
    model = make(name, init=D, solver=solver, max_iter=3).fit(data)
    assert model.components_[:, -1] == pytest.approx(0, abs=0.05), "the dead atom was that feature alone"
    assert np.linalg.norm(model.components_[-1]) > 0.1
    assert np.any(model.transform(data)[:, -1] != 0)
    assert math.isfinite(model.formulation_.dictionary.value(model.components_))


#: Algorithm 1 never replaces atoms.
KEEPING: dict[str, AbstractSolver] = {
    "algorithm1": Algorithm1(),
    "vr": VR(reseed=False),
    "smm": SMM(reseed=False),
    "sgd": SGD(reseed=False),
    "batch": Batch(reseed=False),
}


@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize("name", RESEEDING)
def test_dead_atoms_stay_if_asked(name: str, kind: str) -> None:
    data, D = with_a_dead_atom()
    model = make(name, init=D, solver=KEEPING[kind], max_iter=3).fit(data)
    assert model.components_[-1] == pytest.approx(D[-1], abs=1e-12)
    assert not model.transform(data)[:, -1].any()
    assert not np.array_equal(model.components_[:2], D[:2])


@pytest.mark.parametrize("name", ROTATING)
@every_solver
def test_models_that_reduce_rank_let_atoms_die(name: str, solver: str) -> None:
    data, D = with_a_dead_atom()
    for current in make(name, init=D, solver=solver, max_iter=3).iterate(data):
        assert np.abs(current.D[-1, :-1]).max() <= 1e-12


def test_a_stream_replaces_dead_atoms() -> None:
    data, D = with_a_dead_atom()
    model = make("nmf", init=D)
    for _ in range(8):  # an epoch of a stream is 50 rows for each of 3 atoms
        model.partial_fit(data)
    assert model.components_[:, -1] == pytest.approx(0, abs=0.05)


# Scales ---------------------------------------------------------------------------------------------


def check_scale_law(name: str, solver: str, c: float) -> None:
    # Where both codes and steps stop at a tolerance, rounding may change at which iteration.
    hard = {("max-norm-decomposition", "vr"): 1e-3, ("low-rank-representation", "vr"): 1e-4}
    tol = hard.get((name, solver), 1e-5)
    one, model = automatic(name, solver=solver).fit(X), automatic(name, solver=solver).fit(c * X)
    L, S = one.decompose(X)
    scaled, outliers = model.decompose(c * X)
    assert scaled / c == pytest.approx(L, abs=tol * np.abs(L).max())
    assert outliers / c == pytest.approx(S, abs=tol * np.abs(X).max())
    assert model.objective_ / c**2 == pytest.approx(one.objective_, rel=tol)


@codes_may_stop_short
@pytest.mark.parametrize("c", [1e-3, 7.0, 1e4])
@every_estimator
def test_scaled_data_give_the_scaled_model(name: str, c: float) -> None:
    check_scale_law(name, "vr", c)


@codes_may_stop_short
@pytest.mark.parametrize("solver", ["smm", "sgd", "batch"])
@every_estimator
def test_scaled_data_give_the_scaled_model_under_every_solver(name: str, solver: str) -> None:
    check_scale_law(name, solver, 300.0)


@pytest.mark.parametrize("init", [name for name in STARTS if name != "ones"])
@pytest.mark.parametrize("name", EIGHT)
def test_the_start_scales_too(name: str, init: str) -> None:
    one = automatic(name, init=init, max_iter=1, solver="batch").fit(X).decompose(X)[0]
    other = automatic(name, init=init, max_iter=1, solver="batch").fit(50 * X).decompose(50 * X)[0]
    assert other / 50 == pytest.approx(one, abs=1e-5 * np.abs(one).max())


PAPER = [
    (name, weight)
    for name in EIGHT
    for weight in ("alpha", "outlier_alpha", "smoothness", "dictionary_alpha")
    if hasattr(ESTIMATORS[name], weight)
]


@pytest.mark.parametrize(("name", "weight"), PAPER)
def test_paper_weights_are_one_over_the_root_of_d(name: str, weight: str) -> None:
    others = {other: 0.3 for model, other in PAPER if model == name and other != weight}
    by_word, by_number, automatic = (
        make(name, max_iter=1, solver="batch", **others, **{weight: value}).fit(X).formulation_
        for value in ("paper", D_**-0.5, "auto")
    )
    assert by_word == by_number
    assert by_word != automatic


@pytest.mark.parametrize("name", ["dictionary-learning", "group-dictionary-learning"])
@every_solver
def test_codes_that_are_all_zero_warn(name: str, solver: str) -> None:
    with pytest.warns(UserWarning, match="All codes of .* are zero.*smaller weights"):
        model = make(name, alpha=1e6, solver=solver).fit(X)
    assert not model.transform(X).any()
    assert model.objective_ == pytest.approx(0.5 * np.mean(np.sum(X**2, axis=1)))


# What the formulations mean -------------------------------------------------------------------------


def low_rank_and_corrupted(n: int = 60, d: int = 10) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    gross = 20 * rng.choice([-1.0, 1.0], size=truth.shape)
    return truth, np.where(rng.random(truth.shape) < 0.1, truth + gross, truth)


@every_solver
def test_robust_pca_recovers_what_pca_cannot(solver: str) -> None:
    truth, data = low_rank_and_corrupted()
    model = RobustPCA(2, solver=solver, random_state=0, tol=0, max_iter=30).fit(data)
    L, S = model.decompose(data)
    pca = PCA(2).fit(data)
    error = np.linalg.norm(L - truth)
    assert 5 * error < np.linalg.norm(pca.inverse_transform(pca.transform(data)) - truth)
    where = np.abs(data - truth) > 0
    assert np.abs(S[where]).min() > np.abs(S[~where]).max(), "outliers must stand out"


def test_weights_of_robust_pca_reduce_its_rank() -> None:
    truth, _ = low_rank_and_corrupted()
    model = RobustPCA(4, alpha=3.0, outlier_alpha=5.0, random_state=0, tol=1e-8, max_iter=500).fit(truth)
    norms = np.linalg.norm(model.components_, axis=1)
    assert norms[1] > 0.1 * norms[0] and norms[2] < 1e-3 * norms[0]


def test_robust_pca_is_nuclear_norm_shrinkage_without_outliers() -> None:
    """Without outliers L minimises ½‖X − L‖² + α‖L‖_*, whose solution shrinks singular values by α."""
    data, alpha = rows(), 1.5
    model = RobustPCA(3, alpha=alpha, outlier_alpha=1e3, solver="batch", tol=1e-12, max_iter=3000)
    L = model.set_params(random_state=0).fit(data).decompose(data)[0]
    U, singular, V = np.linalg.svd(data, full_matrices=False)
    expected = (U[:, :3] * np.maximum(singular[:3] - alpha, 0)) @ V[:3]
    assert L == pytest.approx(expected, abs=1e-4 * np.abs(expected).max())


@pytest.mark.slow
def test_smoothness_makes_atoms_smooth() -> None:
    laplacian, data = chain_laplacian(D_), rows()

    def energy(model: AbstractFactorizer) -> float:
        D = model.set_params(max_iter=10, tol=0, random_state=0).fit(data).components_
        return float(np.sum(D * (D @ laplacian.toarray())))

    rough, smooth, smoother = (
        energy(NMF(3)),
        energy(SmoothDictionaryLearning(3)),
        energy(SmoothDictionaryLearning(3, smoothness=1e4)),
    )
    assert rough > 2 * smooth > 20 * smoother


def test_a_laplacian_may_be_given_by_the_shape_of_images() -> None:
    by_shape = make("smooth-dictionary-learning", laplacian=(2, 3)).fit(X)
    matrix = by_shape.formulation_.dictionary.terms[0].matrix  # type: ignore[attr-defined]
    dense = make("smooth-dictionary-learning", laplacian=matrix.toarray()).fit(X)
    assert dense.components_ == pytest.approx(by_shape.components_, abs=1e-6)
    square = make("smooth-dictionary-learning", laplacian="grid").fit(X[:, :4])
    explicit = make("smooth-dictionary-learning", laplacian=(2, 2)).fit(X[:, :4])
    assert np.array_equal(square.components_, explicit.components_)


def test_groups_switch_together() -> None:
    groups = [[0, 1], [2, 3]]
    model = GroupDictionaryLearning(4, groups=groups, alpha=0.8, random_state=0, tol=0, max_iter=5)
    on = model.fit_transform(X) != 0
    for group in groups:
        assert np.array_equal(on[:, group[0]], on[:, group[1]])
        assert on[:, group].any() and not on[:, group].all()


def test_group_weights_choose_groups() -> None:
    model = GroupDictionaryLearning(4, groups=[[0, 1], [2, 3]], group_weights=[1.0, 1e3], alpha=0.1)
    codes = model.set_params(random_state=0, tol=0, max_iter=2).fit_transform(X)
    assert codes[:, :2].any() and not codes[:, 2:].any()


def test_overlapping_groups_vanish_as_unions() -> None:
    model = GroupDictionaryLearning(
        3, groups=[[0, 1], [1, 2]], alpha=0.8, random_state=0, tol=0, max_iter=3
    )
    on = model.fit_transform(X) != 0
    patterns = {tuple(row) for row in on.tolist()}
    assert patterns <= {
        (True, True, True),
        (True, False, False),
        (False, False, True),
        (False, False, False),
    }, "zeros are unions of groups"
    assert len(patterns) > 1


@pytest.mark.parametrize("name", ["dictionary-learning", "group-dictionary-learning", "robust-nmf"])
def test_a_ridge_shortens_codes(name: str) -> None:
    plain, ridged = fitted(name).transform(X), make(name, ridge=5.0).fit(X).transform(X)
    assert np.linalg.norm(ridged) < 0.7 * np.linalg.norm(plain)


def test_codes_keep_their_bounds() -> None:
    codes = make("robust-nmf", max_code=0.5).fit_transform(X)
    assert codes.min() >= 0 and codes.max() == 0.5
    assert np.linalg.norm(fitted("max-norm-decomposition").transform(X), axis=1).max() <= 1 + 1e-10


def test_a_basis_makes_its_directions_cheap() -> None:
    data = rows(n=40)
    span = np.linalg.qr(data[:2].T)[0]

    def share_outside(basis: Array) -> float:
        options: dict[str, Any] = {
            "basis": basis,
            "dictionary_alpha": 1.0,
            "alpha": 5.0,
            "outlier_alpha": 0.3,
        }
        D = make("low-rank-representation", n_components=2, max_iter=10, **options).fit(data).components_
        return float(np.linalg.norm(D - (D @ span) @ span.T) / np.linalg.norm(D))

    assert share_outside(10 * data[:2]) < 0.8 * share_outside(np.eye(D_))


def test_explicit_maps_of_the_original_give_its_penalty() -> None:
    """With A = (I/λ₃ + YᵀY)⁻¹ and B = I − YᵀYA the general Q is A, the default."""
    basis, strength = X[:4], 2.0
    A = np.linalg.inv(np.eye(D_) / strength + basis.T @ basis)
    B = np.eye(D_) - basis.T @ basis @ A
    options: dict[str, Any] = {
        "basis": basis,
        "dictionary_alpha": strength,
        "alpha": 1.0,
        "outlier_alpha": 0.5,
    }
    default = make("low-rank-representation", **options).fit(X)
    mapped = make("low-rank-representation", **options, basis_map=A, residual_map=B).fit(X)
    assert mapped.objective_ == pytest.approx(default.objective_, rel=1e-6)
    assert mapped.components_ == pytest.approx(
        default.components_, abs=1e-5 * np.abs(default.components_).max()
    )


# A user's own term ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElasticNet(AbstractRowTerm):
    """f(z) = sparse · ‖z‖₁ + (shrink/2)‖z‖², as a user would write it."""

    sparse: float
    shrink: float

    def row_values(self, Z: Array) -> Array:
        return self.sparse * np.abs(Z).sum(axis=1) + 0.5 * self.shrink * np.square(Z).sum(axis=1)

    def prox(self, Z: Array, step: float) -> Array:
        return np.sign(Z) * np.maximum(np.abs(Z) - step * self.sparse, 0) / (1 + step * self.shrink)


@every_solver
@pytest.mark.parametrize("outliers", [None, L1(0.4)], ids=["clean", "outliers"])
def test_a_term_of_the_user_is_as_good_as_ours(solver: str, outliers: Any) -> None:
    own, ours = (
        make("matrix-factorization", code=code, outliers=outliers, solver=solver, record_every=1).fit(X)
        for code in (ElasticNet(0.3, 0.2), L1(0.3) + Ridge(0.2))
    )
    assert own.formulation_.code == ElasticNet(0.3, 0.2)
    assert own.objective_ == pytest.approx(ours.objective_, rel=1e-4)
    assert own.objective_ < own.history_["objective"][0]
    assert own.transform(X) == pytest.approx(ours.transform(X), abs=1e-2 * np.abs(X).max())


@every_solver
def test_a_term_of_the_user_may_describe_atoms_and_outliers(solver: str) -> None:
    model = make(
        "matrix-factorization",
        code=UnitBall(),
        dictionary=ElasticNet(0.01, 0.01),
        outliers=ElasticNet(0.4, 0.0),
        solver=solver,
        record_every=1,
    ).fit(X)
    assert model.objective_ < model.history_["objective"][0]
    assert model.set_params(dictionary__sparse=0.5).dictionary == ElasticNet(0.5, 0.01)


def test_the_default_composition_is_dictionary_learning() -> None:
    general, named = fitted("matrix-factorization"), fitted("dictionary-learning")
    assert general.formulation_ == named.formulation_
    assert np.array_equal(general.components_, named.components_)


def test_warnings_point_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make("nmf", tol=1e-9).fit(X)
    assert [warning.filename for warning in caught] == [__file__]


# What n does to automatic weights, long data and large scales ---------------------------------------


def test_the_mean_of_long_single_precision_data_is_exact() -> None:
    long = np.full((2_000_000, 1), 0.1, dtype=np.float32)
    source: Any = make("robust-pca", center=True)._source(long, reset=True)
    assert source.mean.dtype == np.float32 and source.mean[0] == pytest.approx(0.1, rel=1e-6)


def test_option_one_reports_the_drawn_iterate() -> None:
    model = make("dictionary-learning", solver=Algorithm1(option="random"))
    *_, last = model.iterate(X)
    assert np.array_equal(model.fit(X).components_, last.D)


@pytest.mark.parametrize("dtype, scale", [(np.float64, 1e80), (np.float64, 1e-80), (np.float32, 1e11)])
def test_data_beyond_the_range_of_their_type_are_refused(dtype: type, scale: float) -> None:
    with pytest.raises(ValueError, match=r"The data are of size .* rescale X"):
        make("robust-pca").fit((X * scale).astype(dtype))


def test_one_map_without_the_other_is_refused() -> None:
    with pytest.raises(ValueError, match="Only one of `basis_map` and `residual_map`"):
        make("low-rank-representation", basis_map=np.eye(6)).fit(X)


def test_new_negative_rows_and_another_number_of_components_are_refused() -> None:
    model = make("nmf").fit(X)
    with pytest.raises(ValueError, match="Negative values"):
        model.transform(-X)
    with pytest.raises(ValueError, match="`n_components` is 5, but this model has 3 atoms"):
        model.set_params(n_components=5).partial_fit(X)
