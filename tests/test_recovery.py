"""Laws of paths: robust models find the noise, and robust PCA its rank, with nothing but defaults."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from pathlib import Path
from typing import Any

import cvxpy
import dask.array
import numpy as np
import pandas
import pytest

import vrmf
from estimator_cases import WITH_OUTLIERS, automatic, corrupted, rows, stream_of
from inputs import without_a_cluster as without_a_cluster  # a fixture for all tests here
from interruptions import Interruption, interrupted_before
from tables import generator
from vrmf import RobustPCA
from vrmf.arrays import Array
from vrmf.coding import Coder
from vrmf.formulations import robust_pca
from vrmf.problem import Problem
from vrmf.recovery import spectrum
from vrmf.recovery.family import UNSHRUNK
from vrmf.recovery.fitted_noise import ROUNDING
from vrmf.recovery.noise import low_rank_noise, noise_level, quantum, telling
from vrmf.recovery.spectrum import balanced_atoms, spectra
from vrmf.scenes import moving_scene
from vrmf.sources import as_source

RANK = 5


def problem(
    n: int = 120, d: int = 100, errors: float = 0.05, noise: float = 0.0, seed: int = 0
) -> tuple[Array, Array, Array]:
    """Return corrupted rows, their low-rank part of rank 5 and of entries of size 1, and their errors."""
    rng = np.random.default_rng([seed, n, d])
    L = rng.standard_normal((n, RANK)) @ rng.standard_normal((RANK, d)) / RANK**0.5
    S = np.where(rng.random((n, d)) < errors, 20 * rng.choice([-1.0, 1.0], (n, d)), 0.0)
    return L + S + noise * rng.standard_normal((n, d)), L, S


def error(model: Any, X: Array, L: Array) -> float:
    """Return the relative error of the low-rank part."""
    return float(np.linalg.norm(model.decompose(X)[0] - L) / np.linalg.norm(L))


# What is recovered -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "errors"), [((120, 100), 0.1), ((100, 150), 0.05), ((500, 80), 0.05)])
def test_data_without_noise_are_recovered_exactly(shape: tuple[int, int], errors: float) -> None:
    X, L, S = problem(*shape, errors)
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ == len(model.components_) == RANK
    assert error(model, X, L) < 1e-5
    assert np.mean(model.outlier_mask(X) == (S != 0)) > 0.998
    assert model.stop_reason_.startswith("stationary")


@pytest.mark.slow
def test_recovery_goes_to_its_limits() -> None:
    """Near these limits a stage that ends too early leads to a large error at the end."""
    rng, n = generator("limits"), 150
    L = rng.standard_normal((n, 27)) @ rng.standard_normal((27, n)) / n
    X = L + np.where(rng.random((n, n)) < 0.08, rng.choice([-1.0, 1.0], (n, n)), 0.0)
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ == 27 and error(model, X, L) < 1e-4


@pytest.mark.slow
def test_rows_of_very_different_sizes_are_recovered_where_the_convex_program_is_biased() -> None:
    rng = generator("sizes of rows")
    L = np.exp(rng.standard_normal((300, 1))) * rng.standard_normal((300, 3)) @ rng.standard_normal((3, 80))
    X = L + np.where(rng.random(L.shape) < 0.05, 10 * rng.choice([-1.0, 1.0], L.shape), 0.0)
    assert error(RobustPCA(random_state=0).fit(X), X, L) < 0.01  # and 0.15 if the shrinkage stays


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_with_noise_the_error_is_that_of_the_clean_entries(noise: float) -> None:
    X, L, S = problem(300, 200, noise=noise)
    model = RobustPCA(random_state=0).fit(X)
    U, s, V = np.linalg.svd(X - S, full_matrices=False)
    best = np.linalg.norm((U[:, :RANK] * s[:RANK]) @ V[:RANK] - L) / np.linalg.norm(L)
    assert model.rank_ == RANK and error(model, X, L) < 1.3 * best
    assert model.noise_ == pytest.approx(noise, rel=0.05)
    false_alarms = np.mean(model.outlier_mask(X)[S == 0])
    assert 3e-4 < false_alarms < 3e-3
    assert np.mean(model.outlier_mask(X, false_alarms=0.05)[S == 0]) == pytest.approx(0.05, rel=0.2)


def test_it_is_the_convex_problem_if_weights_are_given_and_no_rank() -> None:
    X, _, _ = problem(25, 18, 0.05, 0.1)
    alpha, outlier_alpha = 4.0, 0.5
    model = RobustPCA(alpha=alpha, outlier_alpha=outlier_alpha, random_state=0, tol=1e-9).fit(X)
    L, S = cvxpy.Variable(X.shape), cvxpy.Variable(X.shape)
    cost = 0.5 * cvxpy.sum_squares(X - L - S) + alpha * cvxpy.normNuc(L) + outlier_alpha * cvxpy.norm1(S)
    least = cvxpy.Problem(cvxpy.Minimize(cost)).solve(solver="SCS", eps=1e-7)
    assert model.objective_ * len(X) == pytest.approx(least, rel=1e-4)
    assert model.dual_norm_ < 1.05
    assert model.alpha_ == alpha and model.outlier_alpha_ == outlier_alpha
    convex: Any = L.value
    np.testing.assert_allclose(model.decompose(X)[0], convex, atol=0.02 * np.abs(convex).max())


@pytest.mark.slow
def test_structured_outliers_are_no_background() -> None:
    """A block that moves slowly is nearly of low rank; it must not become a part of the low-rank fit."""
    rng = generator("moving block")
    background = 100 * rng.random((20, 30))
    frames = np.repeat(background[None], 60, axis=0) * (1 + 0.05 * np.sin(np.arange(60) / 9))[:, None, None]
    mask = np.zeros(frames.shape, dtype=bool)
    for t in range(60):
        mask[t, 6:12, t // 3 : t // 3 + 6] = True
    frames = np.where(mask, 180.0, frames) + rng.standard_normal(frames.shape)
    X, truth = frames.reshape(60, -1), mask.reshape(60, -1)
    model = RobustPCA(random_state=0).fit(X)
    found = model.outlier_mask(X)
    assert model.rank_ == 1
    assert 2 * np.sum(found & truth) / (np.sum(found) + np.sum(truth)) > 0.95


@pytest.mark.slow
def test_shrinkage_stays_where_components_would_fit_slow_objects() -> None:
    """Slow objects are weak components, which would fit the objects exactly without shrinkage."""
    scene = moving_scene(100, 0, speed=0.5)
    model = RobustPCA(random_state=0).fit(scene.frames)
    error = np.linalg.norm(model.decompose(scene.frames)[0] - scene.background)
    assert error < 0.08 * np.linalg.norm(scene.background)
    found, truth = model.outlier_mask(scene.frames), scene.mask
    assert 2 * np.sum(found & truth) / (np.sum(found) + np.sum(truth)) > 0.93


@pytest.mark.slow
def test_weak_components_are_kept_if_there_are_no_strong_ones() -> None:
    X, L, _ = problem(400, 300, noise=2.0)
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ == RANK and error(model, X, L) < 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*No component stands out from the noise:UserWarning")
@pytest.mark.parametrize("shape", [(200, 150), (2000, 20), (20, 500)])
def test_pure_noise_has_no_rank(shape: tuple[int, int]) -> None:
    X = generator("pure noise").standard_normal(shape)
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ == 0 and model.components_.shape == (1, shape[1])
    assert not np.any(model.decompose(X)[0])
    assert model.noise_ == pytest.approx(1.0, rel=0.15)


ODD: dict[str, Array] = {
    "constant": np.full((40, 12), 3.0),
    "zero": np.zeros((40, 12)),
    "one row": generator("odd").standard_normal((1, 12)),
    "one feature": generator("odd").standard_normal((40, 1)),
    "all outliers": 1e3 * generator("odd").standard_cauchy((60, 40)),
    "too high a rank": generator("odd").standard_normal((40, 30))
    @ generator("odd").standard_normal((30, 40)),
    "grey levels": np.round(50 * problem(errors=0.0)[1]),
}


@pytest.mark.filterwarnings("ignore:.*No component stands out from the noise:UserWarning")
@pytest.mark.parametrize("case", ODD)
def test_odd_data_have_an_answer(case: str) -> None:
    X = ODD[case]
    model = RobustPCA(random_state=0).fit(X)
    L, S = model.decompose(X)
    assert np.isfinite(L).all() and np.isfinite(S).all() and np.linalg.norm(L) <= 1.1 * np.linalg.norm(X)
    assert len(model.components_) == max(1, model.rank_) <= max(1, min(X.shape) // 2)
    assert model.stop_reason_.startswith("stationary")


def test_grey_levels_have_the_noise_of_rounding() -> None:
    model = RobustPCA(random_state=0).fit(ODD["grey levels"])
    assert model.rank_ == RANK and model.noise_ == pytest.approx(12**-0.5, rel=0.3)


def test_a_rank_at_its_bound_warns() -> None:
    X = generator("too high").standard_normal((24, 20))
    with pytest.warns(UserWarning, match=r"The rank has reached 10, .* calls for more"):
        model = RobustPCA(alpha=0.1, outlier_alpha=10.0, random_state=0).fit(X)
    assert len(model.components_) == 10


@pytest.mark.slow
def test_data_of_noise_alone_warn() -> None:
    with pytest.warns(UserWarning, match="No component stands out from the noise"):
        RobustPCA(random_state=0).fit(generator("words").standard_normal((60, 40)))


# Parameters ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(20, 1000), (5000, 4), (1000, 5), (10, 500), (120, 30)])
@pytest.mark.parametrize("seed", range(2))
def test_noise_of_every_shape_has_rank_0_and_its_own_size(n: int, d: int, seed: int) -> None:
    X = generator(f"noise {n} {d} {seed}").standard_normal((n, d))
    with pytest.warns(UserWarning, match="No component stands out"):
        model = vrmf.RobustPCA(random_state=0).fit(X)
    assert model.rank_ == 0 and not np.any(model.components_)
    assert model.noise_ == pytest.approx(1, rel=0.15)
    assert np.mean(model.outlier_mask(X)) <= 0.02


@pytest.mark.filterwarnings("ignore:All codes of RobustPCA are zero")
@pytest.mark.parametrize("base", [0.0, 5.0])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_few_spikes_in_constant_data_are_outliers(base: float, count: int) -> None:
    rng = generator(f"spikes {base} {count}")
    X, places = np.full((200, 100), base), rng.choice(20_000, count, replace=False)
    X.flat[places] += rng.uniform(20, 33, count)
    mask = vrmf.RobustPCA(random_state=0).fit(X).outlier_mask(X)
    np.testing.assert_array_equal(np.flatnonzero(mask), np.sort(places))


@pytest.mark.slow
def test_a_number_of_components_is_a_bound() -> None:
    X, L, _ = problem()
    model = RobustPCA(3, random_state=0).fit(X)
    assert model.rank_ == 3 and model.dual_norm_ > 1.5
    model = RobustPCA(20, random_state=0).fit(X)
    assert model.rank_ == RANK and error(model, X, L) < 1e-5
    assert model.transform(X).shape == (120, RANK)
    assert list(model.get_feature_names_out()) == [f"robustpca{i}" for i in range(RANK)]


@pytest.mark.parametrize("weight", [0.3, "paper"])
def test_given_weights_are_kept_as_they_are(weight: Any) -> None:
    X, _, _ = problem()
    model = RobustPCA(8, alpha=weight, outlier_alpha=weight, random_state=0, max_iter=3, tol=0).fit(X)
    value = 0.3 if weight == 0.3 else 100**-0.5
    assert model.formulation_ == robust_pca(value, value, 120)
    assert len(model.components_) == 8 and set(model.history_["stage"]) == {0}


def test_one_weight_gives_the_other_at_the_classical_ratio() -> None:
    X, _, _ = problem()
    options: dict[str, Any] = {"n_components": 2, "max_iter": 1, "tol": 0, "random_state": 0}
    one = RobustPCA(alpha=3.0, **options).fit(X)
    other = RobustPCA(outlier_alpha=one.outlier_alpha_, **options).fit(X)
    assert one.outlier_alpha_ == pytest.approx(3.0 / 120**0.5)
    assert other.alpha_ == pytest.approx(3.0)


@pytest.mark.slow
def test_more_components_than_features_are_reduced_to_the_rank() -> None:
    X, _, _ = problem(80, 12, 0.02)
    model = RobustPCA(30, random_state=0).fit(X)
    assert model.rank_ <= 12 and np.isfinite(model.decompose(X)[0]).all()


@pytest.mark.parametrize("share", [0, 1, -0.1, 2.0, "few"])
def test_a_share_of_false_alarms_is_between_0_and_1(share: Any) -> None:
    X, _, _ = problem(30, 20)
    model = RobustPCA(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="`false_alarms` is"):
        model.outlier_mask(X, false_alarms=share)


# One fit, wherever the rows are -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", WITH_OUTLIERS)
def test_a_path_has_the_same_bits_everywhere(name: str, tmp_path: Path) -> None:
    X = np.abs(problem(90, 30, noise=0.05)[0])
    np.save(tmp_path / "rows.npy", X)
    options: dict[str, Any] = {"n_components": 6, "max_iter": 25, "tol": 1e-4}
    first = automatic(name, **options).fit(X)
    for data, threads in (
        (X, 2),
        (np.load(tmp_path / "rows.npy", mmap_mode="r"), 1),
        (dask.array.from_array(X, chunks=(90, 30)), 1),
    ):
        again = automatic(name, **options).set_params(n_jobs=threads).fit(data)
        np.testing.assert_array_equal(again.components_, first.components_)
        assert again.history_["stage"] == first.history_["stage"] and again.noise_ == first.noise_


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", WITH_OUTLIERS)
@pytest.mark.parametrize("c", [1e-5, 300.0])
def test_scaled_data_give_the_scaled_path(name: str, c: float) -> None:
    X = np.abs(problem(90, 30, noise=0.05)[0])
    options: dict[str, Any] = {"n_components": 6, "max_iter": 40, "tol": 1e-4}
    one, other = automatic(name, **options).fit(X), automatic(name, **options).fit(c * X)
    assert other.noise_ / c == pytest.approx(one.noise_, rel=1e-2)
    assert other.outlier_alpha_ / c == pytest.approx(one.outlier_alpha_, rel=1e-2)
    L, scaled = one.decompose(X)[0], other.decompose(c * X)[0] / c
    assert np.linalg.norm(scaled - L) < 1e-2 * np.linalg.norm(L)


def test_the_history_has_stages_and_numbers_of_atoms() -> None:
    X, _, _ = problem()
    model = RobustPCA(random_state=0).fit(X)
    frame = pandas.DataFrame(model.history_)
    assert frame["stage"].is_monotonic_increasing and frame["passes"].is_monotonic_increasing
    assert frame["step"].tolist() == sorted(frame["step"]) and frame["seconds"].is_monotonic_increasing
    assert all(counts.nunique() == 1 for _, counts in frame.groupby("stage")["n_components"])
    assert frame["n_components"].iloc[-1] == RANK and frame["stage"].iloc[-1] > 2


#: Seconds of delay that are allowed on a busy machine.
SLOW_MACHINE = 5.0


@pytest.mark.slow
def test_a_budget_ends_a_path_with_a_warning() -> None:
    X, _, _ = problem(300, 200)
    with pytest.warns(match="budget: max_iter=4"):
        model = RobustPCA(random_state=0, max_iter=4).fit(X)
    assert model.n_iter_ == 4 and np.isfinite(model.decompose(X)[0]).all()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RobustPCA(random_state=0, max_time=0.05).fit(X)
    assert time.perf_counter() - began < 0.05 * 1.2 + 1 + SLOW_MACHINE


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2])
def test_a_path_goes_on_where_it_was_interrupted(stage: int, tmp_path: Path) -> None:
    X, _, _ = problem(errors=0.1, noise=0.01)
    reference = RobustPCA(random_state=0).fit(X)
    steps = reference.history_["step"]
    place = steps[reference.history_["stage"].index(stage)] + 2
    options: dict[str, Any] = {"random_state": 0, "checkpoint": tmp_path / "c", "checkpoint_every": 0}
    with interrupted_before(place, vrmf.solvers.VR), pytest.raises(Interruption):
        RobustPCA(**options).fit(X)
    again = RobustPCA(**options).fit(X)
    np.testing.assert_array_equal(again.components_, reference.components_)
    assert again.noise_ == reference.noise_ and again.rank_ == reference.rank_
    assert again.history_["step"] == steps and again.history_["stage"] == reference.history_["stage"]


@pytest.mark.slow
def test_a_warm_start_goes_on_from_the_components() -> None:
    X, L, _ = problem()
    model = RobustPCA(random_state=0, warm_start=True).fit(X)
    passes = model.n_passes_
    assert error(model.fit(X), X, L) < 1e-5 and model.rank_ == RANK
    assert model.n_passes_ <= passes


@pytest.mark.slow
def test_models_come_back_from_files(tmp_path: Path) -> None:
    X, _, _ = problem(noise=0.1)
    model = RobustPCA(random_state=0).fit(X)
    vrmf.save(model, tmp_path / "model")
    same = vrmf.load(tmp_path / "model")
    np.testing.assert_array_equal(same.outlier_mask(X), model.outlier_mask(X))
    assert (same.rank_, same.noise_, same.dual_norm_) == (model.rank_, model.noise_, model.dual_norm_)
    np.testing.assert_array_equal(same.partial_fit(X).components_, model.partial_fit(X).components_)


# The parts ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_spectra_are_those_of_the_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, _ = problem(noise=0.3)
    form = robust_pca(30.0, 1.0, len(X))
    D = generator("spectra").standard_normal((3, X.shape[1]))
    task, coder = Problem(form, as_source(X)), Coder(tol=1e-10)
    H = form.encode(X, vrmf.coding.Atoms(D), coder).H
    E = form.residual(X, D, H)[0]
    basis = np.linalg.svd(D, full_matrices=False)[2]
    outside = np.linalg.svd(E - E @ basis.T @ basis, compute_uv=False)
    small = spectra(task, D, coder, 1.0, 5)
    np.testing.assert_allclose(small.fitted.values, np.linalg.svd(H @ D, compute_uv=False)[:3], rtol=1e-6)
    np.testing.assert_allclose(small.missing.values, outside[: len(small.missing.values)], rtol=1e-6)
    assert 1 <= len(small.missing.values) <= 5
    assert small.norm >= outside[0] * 0.999
    monkeypatch.setattr(spectrum, "MOST_FEATURES", 10)
    large = spectra(task, D, coder, 1.0, 5)
    np.testing.assert_allclose(large.missing.values, small.missing.values, rtol=0.05)
    assert large.passes > small.passes


def test_balanced_atoms_split_a_matrix_evenly() -> None:
    _, L, _ = problem()
    s, V = np.linalg.svd(L, full_matrices=False)[1:]
    D = balanced_atoms(spectrum.Spectrum(s[:RANK], V[:RANK]))
    H = np.linalg.lstsq(D.T, L.T, rcond=None)[0].T
    np.testing.assert_allclose(np.linalg.norm(H, axis=0), np.linalg.norm(D, axis=1), rtol=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_noise_is_found_among_outliers(share: float) -> None:
    rng = generator(f"noise {share}")
    noise = 0.7 * rng.standard_normal((400, 100))
    noise[rng.random(noise.shape) < share] += 30
    assert noise_level(noise) == pytest.approx(0.7, rel=0.05)
    H, D = rng.standard_normal((400, 4)), rng.standard_normal((4, 100))
    assert low_rank_noise(H @ D + noise, 0.8 * H, D) == pytest.approx(0.7, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_entries_that_are_cut_off_do_not_hide_the_noise(share: float) -> None:
    """Black pixels have no noise. If they counted, the mask would have too many false alarms."""
    rng = generator(f"clipped {share}")
    scene = np.where(rng.random(400) < 2 * share, -10.0, rng.uniform(30, 200, 400))
    X = np.clip(scene * (1 + 0.1 * rng.random((200, 1))) + 3 * rng.standard_normal((200, 400)), 0, 255)
    moved = rng.random(X.shape) < 0.05
    model = RobustPCA(random_state=0).fit(np.where(moved, 255.0, X))
    assert np.mean(X == 0) == pytest.approx(2 * share, abs=0.05)
    assert model.noise_ == pytest.approx(3, rel=0.03)
    assert np.mean(model.outlier_mask(np.where(moved, 255.0, X))[~moved]) < 1.5e-3


@pytest.mark.parametrize("place", ["columns", "rows"])
@pytest.mark.parametrize("share", [0.2, 0.3, 0.5])
def test_constant_rows_and_columns_do_not_hide_the_noise(place: str, share: float) -> None:
    """Such as the black border of an image: without this care all other entries would be outliers."""
    rng = generator(f"constant {place} {share}")
    L = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 40))
    X = L + 0.1 * rng.standard_normal(L.shape)
    if place == "columns":
        X[:, : int(40 * share)] = 0
    else:
        X[: int(150 * share)] = 0
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ == 3 and model.noise_ == pytest.approx(0.1, rel=0.1)
    assert np.mean(model.outlier_mask(X)) < 3e-3


def test_a_stray_entry_beyond_those_that_are_cut_off_does_not_matter() -> None:
    noise = np.maximum(generator("stray").standard_normal((200, 50)) + 1.0, 0.0)
    stray = noise.copy()
    stray[3, 4] = -1e-9
    for X, others in ((noise, 0), (stray, 1)):
        assert np.sum(telling(X)) == np.sum(noise > 0) + others


def test_atoms_of_zeros_fit_nothing() -> None:
    X = generator("zero atoms").standard_normal((300, 3))
    assert low_rank_noise(X, np.ones((300, 1)), np.zeros((1, 3))) == pytest.approx(1, rel=0.1)


def test_truth_values_are_outliers_where_they_are_flipped() -> None:
    """Rounding is off by half a step at most, which is less than its deviation times 3.3."""
    rng = generator("flips")
    table = (rng.random((200, 2)) < 0.5) @ (rng.random((2, 50)) < 0.5)
    flipped = rng.random(table.shape) < 0.03
    X = (table ^ flipped).astype(float)
    model = RobustPCA(random_state=0).fit(X)
    mask = model.outlier_mask(X)
    assert np.mean(mask[flipped]) > 0.9 and np.mean(mask[~flipped]) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_small_data_with_gross_outliers_are_recovered_exactly(seed: int) -> None:
    """The objective is nearly flat near their solution, where fits must not end too early."""
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    is_hit = np.random.default_rng(10 + seed).random(L.shape) < 0.1
    X = np.where(is_hit, rng.uniform(-50, 50, L.shape), L)
    model = RobustPCA(random_state=0).fit(X)
    assert error(model, X, L) < 1e-5
    assert not np.any(model.outlier_mask(X) & ~is_hit)


def test_the_dual_norm_is_of_the_answer_where_weights_are_given() -> None:
    X, _, _ = problem(50, 25, noise=0.05)
    model = RobustPCA(alpha=2.0, outlier_alpha=0.3, random_state=0, tol=1e-9).fit(X)
    L, S = model.decompose(X)
    assert model.dual_norm_ == pytest.approx(np.linalg.norm(X - L - S, 2) / 2.0, rel=1e-3)
    assert model.dual_norm_ < 1.001


def test_noise_of_no_entries_and_of_equal_entries_is_none() -> None:
    assert noise_level(np.empty((0, 3))) == 0 and noise_level(np.zeros((5, 3))) == 0
    assert quantum(np.zeros((5, 3))) == 0 and quantum(generator("q").random((50, 3))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("outlier_alpha", [0.3, 0.03, 0.003])
def test_the_penalty_of_the_max_norm_goes_with_that_of_outliers(outlier_alpha: float) -> None:
    """With a penalty that does not depend on it, the low-rank part would vanish."""
    X, L, _ = problem(errors=0.02)
    model = vrmf.MaxNormDecomposition(RANK, outlier_alpha=outlier_alpha, random_state=0, tol=1e-4).fit(X)
    assert np.linalg.norm(model.decompose(X)[0]) > 0.75 * np.linalg.norm(L)


@pytest.mark.parametrize("name", [name for name in WITH_OUTLIERS if name != "robust-pca"])
def test_other_models_find_the_noise_too(name: str) -> None:
    rng = generator("other models")
    clean = rng.random((300, 3)) @ rng.random((3, 40)) * 4
    X = clean + 0.05 * rng.standard_normal(clean.shape)
    hit = rng.random(X.shape) < 0.05
    X[hit] += 5
    model = automatic(name, n_components=3, max_iter=300, tol=1e-5).fit(X)
    assert model.noise_ == pytest.approx(0.05, rel=0.3)
    assert np.linalg.norm(model.decompose(X)[0] - clean) < 0.02 * np.linalg.norm(clean)
    assert np.mean(model.outlier_mask(X) == hit) > 0.99


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("kind", [vrmf.MaxNormDecomposition, vrmf.LowRankRepresentation])
def test_models_of_low_rank_recover_as_robust_pca_does(kind: Any, noise: float) -> None:
    X, L, S = problem(200, 80, noise=noise)
    model, pca = kind(2 * RANK, random_state=0).fit(X), RobustPCA(random_state=0).fit(X)
    assert model.rank_ == RANK and error(model, X, L) < 1.2 * error(pca, X, L) + 1e-6
    assert np.mean(model.outlier_mask(X) == (S != 0)) > 0.998


def test_sizes_outside_the_range_of_low_rank_representation_are_refused() -> None:
    X = problem()[0]
    for factor in (1e-55, 1e55):
        with pytest.raises(ValueError, match=r"use sizes between 5.3e-52 and 2.4e\+51: rescale X"):
            vrmf.LowRankRepresentation(RANK).fit(factor * X)


# Streams -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RobustPCA, vrmf.MaxNormDecomposition, vrmf.LowRankRepresentation])
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_the_size_of_batches_does_not_matter(kind: Any, rows: int) -> None:
    X, L, S = problem(400, 60, noise=0.1)
    model = kind(RANK, random_state=0)
    for start in range(0, len(X), rows):
        model.partial_fit(X[start : start + rows])
    assert len(model.components_) == RANK and error(model, X, L) < 0.06
    assert model.noise_ == pytest.approx(0.1, rel=0.15)
    assert np.mean(model.outlier_mask(X) == (S != 0)) > 0.99


@pytest.mark.slow
def test_a_stream_forgets_by_rows_however_they_are_cut() -> None:
    X = np.abs(problem(600, 20)[0])
    weights = []
    for cuts in (range(20, 600, 20), [20, 40, 60, 65, 70, 75, *range(80, 600, 40)], [20, *range(21, 600)]):
        model = vrmf.NMF(3, random_state=0).fit(iter(np.split(X, list(cuts))))
        weights.append(stream_of(model).state.weight)
    assert max(weights) < 1.3 * min(weights) < 0.3 * len(X)


@pytest.mark.slow
def test_a_stream_keeps_the_rank_of_its_first_batch() -> None:
    X, L, S = problem(600, 50, noise=0.05)
    model = RobustPCA(random_state=0)
    for batch in np.split(X, 10):
        model.partial_fit(batch)
        assert len(model.components_) == model.rank_ == RANK
    assert error(model, X, L) < 0.1 and model.noise_ == pytest.approx(0.05, rel=0.3)
    assert np.mean(model.outlier_mask(X) == (S != 0)) > 0.99
    assert math.isnan(model.dual_norm_)


def test_a_stream_does_not_take_another_scale_for_noise() -> None:
    X, _, _ = problem(400, 40, noise=0.05)
    model = RobustPCA(random_state=0).partial_fit(1e-3 * X[:200]).partial_fit(X[200:240])
    assert model.noise_ < 0.1


@pytest.mark.parametrize("size", [1e4, 1e9])
def test_a_batch_of_one_huge_row_does_not_change_the_model(size: float) -> None:
    rng = generator("wild")
    L = rng.standard_normal((1200, 3)) @ rng.standard_normal((3, 40))
    X = L + 0.1 * rng.standard_normal(L.shape)
    model = vrmf.RobustPCA(random_state=0)
    for i in range(0, 500, 100):
        model.partial_fit(X[i : i + 100])
    model.partial_fit(size * X[:1])
    assert model.noise_ < 0.2
    model.partial_fit(X[500:600])
    error = np.linalg.norm(model.decompose(X[600:])[0] - L[600:]) / np.linalg.norm(L[600:])
    assert error < 0.05 and model.noise_ == pytest.approx(0.1, rel=0.4)


@pytest.mark.slow
def test_a_stream_that_begins_with_zeros_finds_the_rank_later() -> None:
    X, L, _ = problem(600, 50, noise=0.1)
    model = RobustPCA(random_state=0)
    for batch in np.split(np.concatenate([np.zeros((200, 50)), X]), 16):
        model.partial_fit(batch)
    assert model.rank_ == RANK and error(model, X, L) < 0.06


@pytest.mark.slow
def test_a_stream_follows_a_background_that_drifts() -> None:
    rng = generator("drift")
    days, nights = 100 * rng.random(200), 100 * rng.random(200)
    model, errors = RobustPCA(1, random_state=0), []
    for t in np.linspace(0, 1, 40):
        light = (1 + 0.1 * rng.standard_normal((30, 1))) * ((1 - t) * days + t * nights)
        batch = light + rng.standard_normal(light.shape)
        batch[rng.random(batch.shape) < 0.05] = 255
        model.partial_fit(batch)
        errors.append(np.linalg.norm(model.decompose(batch)[0] - light) / np.linalg.norm(light))
    assert max(errors[5:]) < 0.15 < np.linalg.norm(days - nights) / np.linalg.norm(days)


def test_a_stream_shrinks_as_little_as_a_fit() -> None:
    X, _, _ = problem(noise=0.1)
    for model in (
        RobustPCA(random_state=0).fit(X).partial_fit(X),
        RobustPCA(random_state=0).partial_fit(X),
    ):
        classical = model.outlier_alpha_ * stream_of(model).state.weight ** 0.5
        assert model.alpha_ == pytest.approx(UNSHRUNK * classical, rel=1e-6)


def test_the_rows_of_the_record_fit_the_stages_of_the_path() -> None:
    """A stage that has grown has more atoms, at the same weights; one that falls has no more."""
    X, _, _ = problem(errors=0.1)
    seen: list[tuple[float, int]] = []
    for current in RobustPCA(random_state=0).iterate(X):
        stage = current.stage
        if not seen or stage.index == len(seen):
            seen.append((stage.weights["outlier_alpha"], len(stage.D)))
    for (weight, k), (next_weight, next_k) in itertools.pairwise(seen):
        assert next_weight <= weight and (next_weight == weight or next_k <= k)
    assert seen[0][0] / seen[-1][0] >= 0.75 / ROUNDING["float64"]


def test_the_small_rows_of_other_tests_are_fitted_by_default() -> None:
    """The small rows of other tests, whose fits are cut after two epochs there."""
    X = corrupted(rows(n=60))
    model = RobustPCA(random_state=0).fit(X)
    assert model.rank_ >= 1 and model.stop_reason_.startswith("stationary")


@pytest.mark.parametrize("solver", ["vr", "smm"])
def test_noise_that_differs_between_features_does_not_make_atoms_diverge(solver: str) -> None:
    """Without shrinkage, atoms that fit the noisiest features would grow until the budget ends."""
    rng = np.random.default_rng(100)
    L = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 100))
    S = np.where(rng.random(L.shape) < 0.05, rng.uniform(-50, 50, L.shape), 0)
    N = 0.02 * rng.standard_normal(L.shape) * np.exp(1.5 * rng.standard_normal((1, 100)))
    model = RobustPCA(solver=solver, random_state=0).fit(L + S + N)
    found = model.decompose(L + S + N)[0]
    assert np.linalg.norm(found - L) < 0.05 * np.linalg.norm(L)
    assert model.n_iter_ < 150 and not model.stop_reason_.startswith("budget")
