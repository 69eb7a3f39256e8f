"""Suggestions: the planted model is found, doubts are listed, and the estimator can be fitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse

import vrmf
from vrmf.arrays import Array
from vrmf.estimators import ESTIMATORS
from vrmf.scenes import moving_scene
from vrmf.sources import as_source, single_threaded_blas
from vrmf.suggesting import rules
from vrmf.suggesting.doubts import ALTERNATIVES
from vrmf.suggesting.findings import SPARSE
from vrmf.suggesting.outliers import RobustFit
from vrmf.suggesting.rank import Decomposition, rank_of_counts
from vrmf.suggesting.spikes import without_spikes
from vrmf.suggesting.structure import likely_image_shape, smoothness, sparseness

Generator = np.random.Generator


def low_rank(rng: Generator, n: int = 200, d: int = 60, k: int = 4, noise: float = 0.3) -> Array:
    return rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + noise * rng.standard_normal((n, d))


def positive(rng: Generator, n: int = 200, d: int = 60, k: int = 4, noise: float = 0.1) -> Array:
    return rng.gamma(0.7, size=(n, k)) @ rng.gamma(0.7, size=(k, d)) + noise * rng.random((n, d))


def hit(rng: Generator, X: Array) -> Array:
    return np.where(rng.random(X.shape) < 0.05, X + 8 * np.std(X), X)


def spiked(rng: Generator, X: Array, size: float, share: float = 0.03) -> Array:
    return X + size * rng.choice((-1, 1), X.shape) * (rng.random(X.shape) < share)


def spiked_counts(rng: Generator, low: int, high: int) -> Array:
    rates = rng.gamma(1, 4, size=(300, 3)) @ rng.gamma(0.4, 1, size=(3, 60))
    is_spike = rng.random(rates.shape) < 0.02
    return (rng.poisson(rates) + is_spike * rng.integers(low, high, rates.shape)).astype(float)


def curves(rng: Generator) -> Array:
    grid, centers = np.linspace(0, 1, 100), rng.uniform(0.1, 0.9, (3, 1))
    return rng.gamma(1.0, size=(120, 3)) @ np.exp(-0.5 * ((grid - centers) / 0.06) ** 2)


def counts(rng: Generator) -> Array:
    return rng.poisson(5 * rng.gamma(0.5, size=(300, 4)) @ rng.gamma(0.5, size=(4, 50))).astype(float)


def few_atoms(rng: Generator) -> Array:
    H = rng.standard_normal((600, 8)) * (rng.random((600, 8)) < 0.2)
    return H @ rng.standard_normal((8, 25)) + 0.05 * rng.standard_normal((600, 25))


def with_gaps(rng: Generator, X: Array) -> Array:
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def uneven_parts(rng: Generator) -> Array:
    """Return parts of few strong features, such as genes, and noise of the same size in all of them."""
    parts = rng.gamma(0.3, size=(4, 60))
    parts[:, :16] += 6 * np.kron(np.eye(4), np.ones(4))
    return rng.gamma(0.6, size=(600, 4)) @ parts + 0.06 * np.abs(rng.standard_normal((600, 60)))


@dataclass(frozen=True)
class Case:
    """Data, the right model, the planted number of components, and a word that a doubt must have."""

    make: Callable[[Generator], Array]
    model: str
    n_components: int
    doubt: str = ""


CASES = {
    "low rank": Case(low_rank, "robust-pca", 4),
    "low rank, exact": Case(lambda rng: low_rank(rng, noise=0), "robust-pca", 4),
    "outliers": Case(lambda rng: hit(rng, low_rank(rng)), "robust-pca", 4),
    "positive": Case(positive, "nmf", 4),
    "positive, outliers": Case(lambda rng: hit(rng, positive(rng)), "robust-nmf", 4),
    "positive, exact, outliers": Case(lambda rng: hit(rng, positive(rng, noise=0)), "robust-nmf", 4),
    "spikes": Case(lambda rng: spiked(rng, low_rank(rng), 60), "robust-pca", 4),
    "huge spikes": Case(lambda rng: spiked(rng, low_rank(rng), 1e5), "robust-pca", 4),
    "many huge spikes": Case(lambda rng: spiked(rng, low_rank(rng), 1e3, 0.1), "robust-pca", 4),
    "positive, huge spikes": Case(lambda rng: abs(spiked(rng, positive(rng), 1e3)), "robust-nmf", 4),
    "counts, spikes": Case(lambda rng: spiked_counts(rng, 50, 100), "robust-nmf", 3),
    "counts, huge spikes": Case(lambda rng: spiked_counts(rng, 200, 600), "robust-nmf", 3),
    "curves": Case(curves, "smooth-dictionary-learning", 3),
    "counts": Case(counts, "nmf", 4),
    "few atoms": Case(few_atoms, "dictionary-learning", 8),
    "video": Case(lambda rng: moving_scene(60, 3).frames, "robust-pca", 2),
    "gaps": Case(lambda rng: with_gaps(rng, low_rank(rng)), "robust-pca", 4, "missing"),
    "uneven parts": Case(uneven_parts, "nmf", 4),
    "scales": Case(lambda rng: low_rank(rng) * np.geomspace(1, 1000, 60), "robust-pca", 4, "scale"),
}

NOTHING: dict[str, tuple[Callable[[Generator], Array], str]] = {
    "normal noise": (lambda rng: rng.standard_normal((200, 40)), "no structure"),
    "uneven noise": (lambda rng: rng.standard_normal((200, 40)) * rng.uniform(0.5, 4, 40), "no structure"),
    "heavy noise": (lambda rng: rng.standard_t(2.5, (200, 40)), "no structure"),
    "positive noise": (lambda rng: rng.exponential(size=(200, 40)), "no structure"),
    "Poisson noise": (lambda rng: rng.poisson(2.0, (200, 40)).astype(float), "no structure"),
    "noise and spikes": (lambda rng: spiked(rng, rng.standard_normal((200, 40)), 1e3), "no structure"),
    "constant": (lambda rng: np.full((40, 6), 2.5), "no structure"),
    "equal rows": (lambda rng: np.tile(rng.standard_normal(9), (30, 1)), "no structure"),
    "zeros": (lambda rng: np.zeros((30, 5)), "no structure"),
    "one feature": (lambda rng: rng.standard_normal((80, 1)), "one feature"),
    "one row": (lambda rng: rng.standard_normal((1, 8)), "few rows"),
    "one entry": (lambda rng: np.ones((1, 1)), "few rows"),
    "nothing but NaN": (lambda rng: np.full((20, 5), np.nan), "missing"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_planted_is_suggested(name: str) -> None:
    case = CASES[name]
    suggestion = vrmf.suggest(case.make(np.random.default_rng(len(name))))
    assert suggestion.model == case.model
    assert abs((suggestion.n_components or suggestion.findings.rank) - case.n_components) <= 1
    assert not case.doubt or any(case.doubt in doubt.lower() for doubt in suggestion.doubts)


@pytest.mark.parametrize("name", NOTHING)
def test_data_without_structure_get_no_components(name: str) -> None:
    make, doubt = NOTHING[name]
    suggestion = vrmf.suggest(make(np.random.default_rng(len(name))))
    # For RobustPCA a number would be a bound.
    assert suggestion.n_components == (None if suggestion.model == "robust-pca" else 1)
    assert suggestion.findings.rank_about_mean == 0
    assert any(doubt in told.lower() for told in suggestion.doubts)


@pytest.mark.parametrize("size", [20, 60, 100, 1e4])
def test_the_size_of_outliers_does_not_matter(size: float) -> None:
    rng = np.random.default_rng(0)
    suggestion = vrmf.suggest(low_rank(rng, noise=0.1) + size * (rng.random((200, 60)) < 0.03))
    assert (suggestion.model, suggestion.findings.rank) == ("robust-pca", 4)
    assert suggestion.findings.outlier_share == pytest.approx(0.03, abs=0.005)


HEAVY: dict[str, Callable[[Generator], Array]] = {
    "tails": lambda rng: rng.standard_cauchy((300, 50)),
    "products": lambda rng: rng.gamma(0.3, size=(300, 4)) @ rng.gamma(0.3, size=(4, 50)),
    "a block": lambda rng: rng.random((300, 50)) + 100 * np.outer(np.arange(300) < 60, np.arange(50) < 15),
    "rare parts": lambda rng: (
        rng.random((300, 50)) + 100 * (rng.random((300, 15)) < 0.1) @ (rng.random((15, 50)) < 0.05)
    ),
    "counts": lambda rng: rng.poisson(rng.gamma(0.5, size=(300, 4)) @ rng.gamma(0.5, 9, size=(4, 50))),
    "counts with more noise": lambda rng: rng.poisson(rng.gamma(0.3, 20, size=(300, 50))),
}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_and_large_parts_are_no_spikes(name: str) -> None:
    rng = np.random.default_rng(len(name))
    X = np.asarray(HEAVY[name](rng), dtype=float)
    are_counts = bool(np.all((X >= 0) & (X == np.round(X))))
    block, share = without_spikes(X, are_counts, rng)
    assert share == 0
    np.testing.assert_array_equal(block, X)


def test_outliers_of_a_small_table_are_doubted() -> None:
    rng = np.random.default_rng(0)
    X = hit(rng, low_rank(rng, 300, 12, 1))
    found = vrmf.suggest(X)
    assert found.findings.has_outliers
    assert any("With 12 features only, outliers can hardly be told" in doubt for doubt in found.doubts)


def test_a_share_of_all_entries_is_printed_as_100_percent() -> None:
    doubts = vrmf.suggest(np.full((20, 5), np.nan)).doubts
    assert any(doubt.startswith("100 % of the entries are missing") for doubt in doubts)


def identified(rng: Generator, name: str, ids: Array) -> pandas.DataFrame:
    frame = pandas.DataFrame(positive(rng, len(ids), 12), columns=[f"x{i}" for i in range(12)])
    frame.insert(0, name, ids)
    return frame


@pytest.mark.parametrize("kind", ["frame", "parquet"])
@pytest.mark.parametrize("name", ["ID", "patient_id", "Patient", "area", "nr"])
def test_a_column_that_identifies_rows_is_doubted(name: str, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = np.arange(120) if name == "nr" else rng.permutation(10_000)[:120]
    frame = identified(rng, name, ids)
    frame.to_parquet(tmp_path / "rows.parquet")
    X = frame if kind == "frame" else tmp_path / "rows.parquet"
    told = [doubt for doubt in vrmf.suggest(X).doubts if "identify rows" in doubt]
    assert len(told) == 1 and f"--drop {name} " in told[0]
    assert vrmf.suggest(frame.drop(columns=name)).findings.identifiers == ()


def test_whole_numbers_that_measure_are_no_identifiers() -> None:
    rng = np.random.default_rng(0)
    for X in (
        pandas.DataFrame(counts(rng)).add_prefix("gene"),  # many columns of whole numbers
        pandas.DataFrame(1000 * positive(rng)).round().add_prefix("cell count "),
        identified(rng, "age", rng.integers(0, 90, 120)),  # that occur twice
    ):
        assert vrmf.suggest(X).findings.identifiers == ()


def with_square(rng: Generator, grey: float) -> Array:
    """Return frames of a background below 221, before which a square of one grey moves."""
    y, x = np.mgrid[:30, :40]
    background = 60 + 120 * np.exp(-((y - 10) ** 2 + (x - 20) ** 2) / 200) + x
    light = 1 + 0.05 * np.sin(np.arange(80) / 9)
    frames = np.clip(background * light[:, None, None] + rng.normal(0, 3, (80, 30, 40)), 5, 221)
    for t, frame in enumerate(frames):
        row, column = (5 + t // 4) % 24, 3 * t % 34
        frame[row : row + 6, column : column + 6] = grey
    return np.round(frames).reshape(80, -1)


@pytest.mark.parametrize("grey", [230, 255, 0])
def test_an_object_of_one_grey_is_an_outlier(grey: float) -> None:
    found = vrmf.suggest(with_square(np.random.default_rng(0), grey))
    assert found.model == "robust-pca" and found.findings.rank <= 3
    assert found.findings.outlier_share == pytest.approx(0.03, abs=0.005)


@pytest.mark.parametrize("seed", [0, 1])
def test_outliers_that_are_all_equal_are_found_like_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, is_hit = positive(rng), rng.random((200, 60)) < 0.03
    top = 1.2 * np.max(X)
    equal = vrmf.suggest(np.where(is_hit, top, X))
    others = vrmf.suggest(np.where(is_hit, top + 0.01 * rng.standard_normal(X.shape), X))
    assert equal.model == others.model == "robust-nmf"
    assert equal.findings.rank == others.findings.rank > 1
    assert equal.findings.outlier_share == pytest.approx(others.findings.outlier_share, rel=0.02)


def test_entries_that_are_cut_off_are_no_outliers() -> None:
    X = positive(np.random.default_rng(0), noise=0.5)
    cut = vrmf.suggest(np.minimum(X, np.quantile(X, 0.98)))
    assert not cut.findings.has_outliers


@pytest.mark.parametrize("share", [0, 0.005, 0.03])
def test_small_spikes_in_counts_make_no_components(share: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.poisson(rng.gamma(2, 1, (300, 5)) @ rng.gamma(2, 0.25, (5, 80)))
    found = vrmf.suggest(X + (rng.random(X.shape) < share) * rng.integers(10, 31, X.shape))
    assert (found.model, found.n_components) == ("robust-nmf" if share else "nmf", 5)


@pytest.mark.parametrize("size", [0.02, 0.1, 0.2])
def test_noise_in_proportion_to_the_entries_is_doubted(size: float) -> None:
    found = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.exp(rng.standard_normal((120, 4))) @ np.exp(rng.standard_normal((4, 60)))
        growing = vrmf.suggest(X * np.exp(rng.normal(0, size, X.shape))).doubts
        even = vrmf.suggest(X + 0.2 * rng.random(X.shape)).doubts
        found += any("grows with the entries" in doubt and "np.log(X)" in doubt for doubt in growing)
        assert not any("grows with the entries" in doubt for doubt in even)
    assert found >= 3  # a fit of too high a rank explains the largest entries


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_few_features_are_too_few_to_tell(d: int) -> None:
    rng = np.random.default_rng(0)
    for X in (low_rank(rng, d=d, k=min(d - 1, 2)), rng.random((200, d))):
        doubts = vrmf.suggest(X).doubts
        assert sum(f"too few features ({d}) to tell" in doubt for doubt in doubts) == 1
        assert not any("no structure" in doubt for doubt in doubts)


def test_pixels_are_whole_numbers_and_not_counts() -> None:
    rng = np.random.default_rng(0)
    X = counts(rng)
    source = as_source(X)
    source.image_shape = (5, 10)
    assert any("counts" in reason for reason in vrmf.suggest(X).reasons)
    assert not any("counts" in reason for reason in vrmf.suggest(source).reasons)


@pytest.mark.parametrize("seed", range(8))
def test_noise_has_no_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rng.integers(15, 200), rng.integers(5, 100)))
    assert Decomposition.of(X).rank(rng) == 0


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_the_scale_of_the_data_does_not_matter(scale: float) -> None:
    X = hit(np.random.default_rng(0), low_rank(np.random.default_rng(1)))
    one, other = vrmf.suggest(X), vrmf.suggest(scale * X)
    assert (one.model, one.findings.rank, one.reasons) == (other.model, other.findings.rank, other.reasons)


def test_the_same_data_and_seed_give_the_same_suggestion() -> None:
    X = few_atoms(np.random.default_rng(0))
    assert vrmf.suggest(X, random_state=3) == vrmf.suggest(X, random_state=3)


def test_data_are_not_changed() -> None:
    X = with_gaps(np.random.default_rng(0), positive(np.random.default_rng(1)))
    before = X.copy()
    vrmf.suggest(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole numbers", "sparse", "frame", "file", "source"])
def test_every_kind_of_data_is_taken(kind: str, tmp_path: Path) -> None:
    X = counts(np.random.default_rng(0))
    np.save(tmp_path / "rows.npy", X)
    kinds: dict[str, Any] = {
        "whole numbers": X.astype(np.int64),
        "sparse": scipy.sparse.csr_array(X),
        "frame": pandas.DataFrame(X),
        "file": tmp_path / "rows.npy",
        "source": as_source(X),
    }
    assert vrmf.suggest(kinds[kind]).reasons == vrmf.suggest(X).reasons


@pytest.mark.parametrize("name", ["low rank", "curves", "few atoms"])
def test_the_estimator_is_what_is_suggested_but_for_overrides(name: str) -> None:
    suggestion = vrmf.suggest(CASES[name].make(np.random.default_rng(0)))
    model = suggestion.estimator(random_state=3)
    assert type(model) is ESTIMATORS[suggestion.model]
    known = model.get_params(deep=False)
    assert (known["n_components"], known["random_state"]) == (suggestion.n_components, 3)
    assert known.items() >= suggestion.parameters.items()
    assert suggestion.estimator(n_components=9).get_params()["n_components"] == 9


@pytest.mark.slow
def test_the_suggested_model_takes_the_data() -> None:
    X = positive(np.random.default_rng(0))
    model = vrmf.suggest(X).estimator(random_state=0, n_jobs=1).fit(X)
    assert model.reconstruction_error_ < 0.1


def test_a_suggestion_is_plain_text_and_json() -> None:
    suggestion = vrmf.suggest(with_gaps(np.random.default_rng(0), curves(np.random.default_rng(1))))
    known = json.loads(json.dumps(suggestion.to_dict(), allow_nan=False))
    assert known["model"] == suggestion.model and known["findings"]["rank"] == suggestion.findings.rank
    text = str(suggestion)
    assert text.startswith(suggestion.model) and "Why:" in text and "Not sure:" in text
    assert max(map(len, text.splitlines())) <= 88


def test_no_more_rows_are_read_than_allowed() -> None:
    assert vrmf.suggest(positive(np.random.default_rng(0)), max_rows=50).findings.rows_read == 50


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.ones((0, 3)), {}, "The data have 0 rows and 3 features. Use at least one of each."),
        (np.ones((3, 3)), {"max_rows": 0}, "max_rows"),
        (np.ones(3), {}, "Use rows and features"),
        (np.ones((9, 3, 3)), {}, r"X.reshape\(len\(X\), -1\) makes a row of each frame"),
        (pandas.DataFrame({"a": [1.0], "t": ["x"]}), {}, r"'t' is of type .*X.set_index\('t'\)"),
    ],
)
def test_errors_say_what_is_needed(X: Array, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vrmf.suggest(X, **options)


def test_alternatives_are_models() -> None:
    assert {name for others in ALTERNATIVES.values() for name, _ in others} <= set(ESTIMATORS)
    assert set(ALTERNATIVES) <= set(ESTIMATORS) and rules.RULES[-1] is rules.low_rank


@pytest.mark.slow
def test_an_image_shape_that_is_known_is_not_doubted() -> None:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:10, :14]
    centers = rng.uniform(0, 12, (150, 2, 1, 1))
    X = np.exp(-((y - centers[:, 0]) ** 2 + (x - centers[:, 1]) ** 2) / 8).reshape(150, -1)
    assert likely_image_shape(X) == (10, 14)
    source = as_source(X)
    source.image_shape = (10, 14)
    told, guessed = vrmf.suggest(source), vrmf.suggest(X)
    assert told.findings.image_is_known and not guessed.findings.image_is_known
    assert sum("guess" in doubt for doubt in guessed.doubts) == 1
    assert not any("guess" in doubt for doubt in told.doubts)


def test_order_and_sparsity_need_more_than_noise() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((300, 60))
    assert smoothness(noise) == 0 and likely_image_shape(noise) is None
    assert abs(sparseness(noise[:, :10], rng)) < SPARSE / 2
    # Rows of different sizes are no sparse codes.
    assert abs(sparseness(noise[:, :10] * rng.standard_t(3, (300, 1)), rng)) < SPARSE


def test_a_robust_fit_finds_what_was_hit() -> None:
    rng = np.random.default_rng(0)
    clean = low_rank(rng, noise=0.1)
    X = hit(rng, clean)
    with single_threaded_blas():
        fit = RobustFit.of(X, rng)
    # Outliers of one sign have a mean, which may be a component of its own.
    assert fit.rank in (4, 5) and fit.noise == pytest.approx(0.1, rel=0.1)
    assert fit.far_share == pytest.approx(np.mean(X != clean), rel=0.05)


def test_counts_without_rows_or_columns_of_zeros_or_with_them() -> None:
    X = counts(np.random.default_rng(0))
    padded = np.pad(X, ((0, 5), (3, 0)))
    assert rank_of_counts(X) == rank_of_counts(padded) == 4


@pytest.mark.parametrize("name", ["all", "one row", "one entry", "too small", "single", "with gaps"])
def test_sizes_that_no_fit_takes_are_refused_as_by_a_fit(name: str) -> None:
    X = positive(np.random.default_rng(0), n=40, d=10)
    spiked, row, gaps = X.copy(), X.copy(), X * 1e300
    spiked[3, 2], row[7], gaps[0] = 1e308, 1e308, np.nan
    data = {
        "all": X * 1e300,
        "one row": row,
        "one entry": spiked,
        "too small": X * 1e-200,
        "single": (X * 1e30).astype(np.float32),
        "with gaps": gaps,
    }[name]
    told = (
        r"^The data are of size \d.\de[+-]\d+\. In float(64|32) use sizes between .* and .*: rescale X\.$"
    )
    with pytest.raises(ValueError, match=told):
        vrmf.suggest(data)
    if name != "with gaps":
        with pytest.raises(ValueError, match=told):
            vrmf.NMF(2).fit(data)
