"""Laws of fitted models and new rows: errors, weights in use, unfinished codes, rows that are too long."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score

import vrmf.problem
from estimator_cases import (
    CENTERING,
    NAMES,
    codes_may_stop_short,
    corrupted,
    every_estimator,
    every_solver,
    fitted,
    make,
    rows,
    stream_of,
)
from inputs import KINDS, every_kind, lazy
from inputs import without_a_cluster as without_a_cluster  # a fixture for all tests here
from vrmf.arrays import Array
from vrmf.coding import Atoms, Coder
from vrmf.estimators import AbstractFactorizer, inference
from vrmf.estimators.explained import Moments
from vrmf.sources import as_source

X = corrupted(rows())
MANY = corrupted(rows(n=70))

#: The models were fitted to arrays.
without_names = pytest.mark.filterwarnings("ignore:X has feature names")


def relative_error(model: AbstractFactorizer, Z: Array) -> float:
    """Return ‖Z − L − S‖ / ‖Z‖ from the decomposition."""
    L, S = model.decompose(Z)
    return float(np.linalg.norm(Z - L - S) / np.linalg.norm(Z))


# The error of the reconstruction ----------------------------------------------------------------------


@codes_may_stop_short
@every_solver
@every_estimator
def test_the_reconstruction_error_is_that_of_the_decomposition(name: str, solver: str) -> None:
    model = fitted(name, solver)
    assert model.reconstruction_error_ == pytest.approx(relative_error(model, X), rel=1e-9)


@codes_may_stop_short
@every_estimator
def test_the_reconstruction_error_in_single_precision(name: str) -> None:
    model = make(name).fit(X.astype(np.float32))
    assert isinstance(model.reconstruction_error_, float)
    assert model.reconstruction_error_ == pytest.approx(
        relative_error(model, X.astype(np.float32)), rel=1e-4
    )


@codes_may_stop_short
@pytest.mark.parametrize("name", CENTERING)
def test_the_reconstruction_error_of_centred_data_is_relative_to_them(name: str) -> None:
    model = make(name, center=True).fit(X + 100)
    L, S = model.decompose(X + 100)
    expected = np.linalg.norm(X + 100 - L - S) / np.linalg.norm(X - X.mean(axis=0))
    assert model.reconstruction_error_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.filterwarnings("ignore:All codes of")
@every_estimator
def test_nothing_is_left_of_data_that_are_zero(name: str) -> None:
    assert make(name).fit(np.zeros((9, 4))).reconstruction_error_ == 0.0


# Explained variance -----------------------------------------------------------------------------------


def explained(model: AbstractFactorizer, Z: Array) -> float:
    """Return the R² of the decomposition by scikit-learn."""
    L, S = model.decompose(Z)
    return float(r2_score(Z, L + S, multioutput="variance_weighted"))


@codes_may_stop_short
@every_estimator
def test_explained_variance_is_r2_of_the_decomposition(name: str) -> None:
    for Z in (X, MANY, X[:2]):
        value = fitted(name).explained_variance_ratio(Z)
        assert isinstance(value, float)
        assert value == pytest.approx(explained(fitted(name), Z), rel=1e-9, abs=1e-9)


@without_names
@codes_may_stop_short
@every_kind
def test_explained_variance_of_every_kind_of_data(kind: str, tmp_path: Path) -> None:
    model = fitted("robust-pca")
    data = KINDS[kind].make(MANY, tmp_path)
    assert model.explained_variance_ratio(data) == pytest.approx(explained(model, MANY), rel=1e-6)


@codes_may_stop_short
def test_explained_variance_of_a_stream_is_that_of_all_its_rows() -> None:
    model = fitted("robust-pca")
    pieces = [MANY[:1], MANY[1:9], MANY[:0], MANY[9:]]
    assert model.explained_variance_ratio(iter(pieces)) == pytest.approx(explained(model, MANY), rel=1e-9)
    with pytest.raises(ValueError, match=r"The stream has no rows: all of its 2 batches are empty"):
        model.explained_variance_ratio(iter([MANY[:0], MANY[:0]]))


@codes_may_stop_short
def test_a_large_mean_does_not_spoil_the_explained_variance() -> None:
    near, far = (make("robust-pca", center=True).fit(X + shift) for shift in (0.0, 1e7))
    assert far.explained_variance_ratio(X + 1e7) == pytest.approx(
        near.explained_variance_ratio(X), rel=1e-6
    )


def test_data_without_variance_are_explained_wholly_or_not_at_all() -> None:
    constant = np.full((40, 3), 0.1)
    centred = make("dictionary-learning", center=True).fit(X[:, :3])
    centred.mean_ = constant[0]
    assert centred.explained_variance_ratio(constant) == 1.0
    assert centred.explained_variance_ratio(constant + 1e-3) == 0.0
    zero = fitted("dictionary-learning").explained_variance_ratio(np.zeros((4, 6)))
    assert zero == 1.0


def test_moments_do_not_depend_on_how_rows_are_cut() -> None:
    Z = np.random.default_rng(0).normal(1e6, 1.0, size=(50, 3))
    for cuts in ([1], [3, 20, 21], range(1, 50)):
        parts = [Moments.of(part) for part in np.split(Z, list(cuts))]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        assert total.count == 50
        assert total.mean == pytest.approx(Z.mean(axis=0), rel=1e-14)
        assert total.squares == pytest.approx(50 * np.var(Z, axis=0).sum(), rel=1e-9)


# The weights in use -----------------------------------------------------------------------------------


def weights_in_use(model: AbstractFactorizer) -> dict[str, Any]:
    """Return the fitted attributes that are named after parameters."""
    names = model.get_params(deep=False)
    return {name: getattr(model, f"{name}_") for name in names if f"{name}_" in vars(model)}


LEARN: dict[str, Callable[[AbstractFactorizer], AbstractFactorizer]] = {
    "fit": lambda model: model.fit(X),
    "stream": lambda model: model.partial_fit(iter(np.array_split(X, 4))),
    "fit, then stream": lambda model: model.fit(X).partial_fit(3 * X).partial_fit(X[:2]),
}


@codes_may_stop_short
@pytest.mark.parametrize("how", LEARN)
@every_estimator
def test_weights_in_use_give_the_same_formulation(name: str, how: str) -> None:
    """Weights of a fit, given as parameters, lead to the same problem."""
    model = LEARN[how](make(name))
    told = weights_in_use(model)
    automatic = {
        key
        for key, value in model.get_params(deep=False).items()
        if isinstance(value, str) and value == "auto"
    }
    assert automatic <= told.keys()
    weights = [getattr(model, f"{key}_") for key in automatic]
    assert all(type(weight) is float and weight > 0 for weight in weights)
    told.pop("solver", None)  # that of the stream
    again = make(name, **told)
    if name == "low-rank-representation" and how != "fit":
        again.set_params(basis=stream_of(model).weights["basis"])
    found = LEARN[how](again).formulation_
    if (name, how) == ("low-rank-representation", "fit, then stream"):  # another basis is another number of
        model.formulation_ = dataclasses.replace(model.formulation_, dictionary=found.dictionary)  # steps
    assert found == model.formulation_


@every_estimator
def test_weights_in_use_are_kept_in_files(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    vrmf.save(model, tmp_path / "model")
    same = vrmf.load(tmp_path / "model")
    assert weights_in_use(same) == weights_in_use(model)
    assert same.reconstruction_error_ == model.reconstruction_error_


# Codes that are unfinished ----------------------------------------------------------------------------

#: A coder that cannot finish.
HASTY = Coder(tol=1e-8, max_iter=1, method="gradient")

#: What is done with rows: by an array, by batches, lazily.
CODING: dict[str, Callable[[Any, Any], Any]] = {
    "transform": lambda model, Z: model.transform(Z),
    "decompose": lambda model, Z: model.decompose(Z),
    "objective": lambda model, Z: model.objective(Z),
    "score": lambda model, Z: model.score(Z),
    "score_samples": lambda model, Z: model.score_samples(Z),
    "explained_variance_ratio": lambda model, Z: model.explained_variance_ratio(Z),
    "code_blocks": lambda model, Z: list(model.code_blocks(Z)),
}
every_coding = pytest.mark.parametrize("method", CODING)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the coder one iteration, so that most codes are unfinished."""
    monkeypatch.setattr(inference, "EXACT", HASTY)
    monkeypatch.setattr(vrmf.problem, "EXACT", HASTY)


def unfinished(model: AbstractFactorizer, Z: Array) -> int:
    codes = model.formulation_.encode(Z, Atoms(model.components_), HASTY)
    return int(np.sum(~codes.finished))


def warned(act: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return caught


def message(count: int, n: int) -> str:
    return f"{count} of {n} codes stopped at a relative error of up to "


@every_coding
@every_estimator
def test_unfinished_codes_warn(name: str, method: str, hasty: None) -> None:
    model, count = fitted_before(name), unfinished(fitted_before(name), MANY)
    assert count > 0
    (warning,) = warned(lambda: CODING[method](model, MANY))
    assert issubclass(warning.category, ConvergenceWarning)
    assert str(warning.message).startswith(message(count, len(MANY)))
    assert "above the tolerance 1.0e-08" in str(warning.message)
    assert warning.filename == __file__, "the warning does not point at the caller"


def fitted_before(name: str) -> AbstractFactorizer:
    """Return a model that was fitted with finished codes."""
    return MODELS[name]


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    MODELS = {name: fitted(name) for name in NAMES}


@every_coding
@every_estimator
def test_finished_codes_do_not_warn(name: str, method: str) -> None:
    # Dependent atoms under outliers may leave a code short; a ridge makes codes easy where there is one.
    model = make(name, ridge=0.1) if hasattr(make(name), "ridge") else make(name)
    model.fit(X)
    assert not warned(lambda: CODING[method](model, X))


@every_coding
def test_unfinished_codes_warn_once_for_all_threads(method: str, hasty: None) -> None:
    many = corrupted(rows(n=1200))
    model = MODELS["robust-pca"]
    count = unfinished(model, many)
    source = as_source(many, 2, chunk_rows=100)
    (warning,) = warned(lambda: CODING[method](model, source))
    assert str(warning.message).startswith(message(count, len(many)))


def batches() -> Iterator[Array]:
    return iter(np.split(MANY, [20, 20, 50]))


@pytest.mark.parametrize("method", ["transform", "decompose", "score_samples"])
def test_unfinished_codes_of_a_stream_warn_batch_by_batch(method: str, hasty: None) -> None:
    model = MODELS["robust-pca"]
    caught = warned(lambda: list(CODING[method](model, batches())))
    expected = [message(unfinished(model, batch), len(batch)) for batch in batches() if len(batch)]
    assert [str(w.message)[: len(start)] for w, start in zip(caught, expected, strict=True)] == expected


@pytest.mark.parametrize("method", ["objective", "score", "explained_variance_ratio"])
def test_unfinished_codes_of_a_stream_warn_at_its_end(method: str, hasty: None) -> None:
    model = MODELS["robust-pca"]
    (warning,) = warned(lambda: CODING[method](model, batches()))
    assert str(warning.message).startswith(message(unfinished(model, MANY), len(MANY)))


@pytest.mark.parametrize("method", ["transform", "decompose", "score_samples"])
def test_unfinished_codes_of_a_lazy_array_warn_when_it_is_computed(method: str, hasty: None) -> None:
    model, data = MODELS["robust-pca"], lazy(MANY)
    answers: list[Any] = []
    assert not warned(lambda: answers.append(CODING[method](model, data)))
    caught = warned(lambda: dask.compute(answers, scheduler="synchronous"))
    chunks = np.split(MANY, np.cumsum(data.chunks[0])[:-1])
    expected = sorted(message(unfinished(model, chunk), len(chunk)) for chunk in chunks)
    assert sorted(str(w.message).partition("up to ")[0] + "up to " for w in caught) == expected


@pytest.mark.parametrize("name", ["robust-pca", "dictionary-learning"])
def test_unfinished_codes_of_a_fit_warn(name: str, hasty: None) -> None:
    model = make(name)
    (warning,) = warned(lambda: model.fit_transform(X))
    assert str(warning.message).startswith(message(unfinished(model, X), len(X)))
    assert warning.filename == __file__


def test_the_warning_names_the_tolerance_of_single_precision(hasty: None) -> None:
    (warning,) = warned(lambda: MODELS["robust-pca"].transform(MANY.astype(np.float32)))
    assert "above the tolerance 7.6e-06" in str(warning.message)


# Rows that are too long -------------------------------------------------------------------------------

NEW_ROWS = CODING | {
    "partial_fit": lambda model, Z: make("robust-pca").partial_fit(Z),
    "partial_fit, later": lambda model, Z: (
        make("robust-pca").partial_fit(X.astype(getattr(Z, "dtype", X.dtype))).partial_fit(Z)
    ),
    "fit": lambda model, Z: make("robust-pca").fit(Z),
    "fit_transform": lambda model, Z: make("robust-pca").fit_transform(Z),
    "iterate": lambda model, Z: next(iter(make("robust-pca").iterate(Z))),
}
SIZES = [(np.float64, 1e160), (np.float64, 1e80), (np.float32, 1e11)]
every_size = pytest.mark.parametrize(("dtype", "size"), SIZES, ids=["1e160", "1e80", "float32"])
every_method = pytest.mark.parametrize("method", NEW_ROWS)
TOO_LONG = r"The data are of size \d\.\de\+\d+\. In float(32|64) use sizes between .* and .*: rescale X"


def with_a_long_row(size: float, dtype: Any = np.float64) -> Array:
    Z = MANY.astype(dtype)
    Z[7, 2] = size
    return Z


@every_size
@every_method
@pytest.mark.filterwarnings("error")
def test_rows_that_are_too_long_are_refused(method: str, dtype: Any, size: float) -> None:
    with pytest.raises(ValueError, match=TOO_LONG):
        NEW_ROWS[method](MODELS["robust-pca"], with_a_long_row(size, dtype))


@without_names
@every_kind
@every_method
def test_rows_that_are_too_long_are_refused_wherever_they_are(
    method: str, kind: str, tmp_path: Path
) -> None:
    data = KINDS[kind].make(with_a_long_row(1e160), tmp_path)
    with pytest.raises(ValueError, match=TOO_LONG), dask.config.set(scheduler="synchronous"):
        dask.compute(NEW_ROWS[method](MODELS["robust-pca"], data))


@pytest.mark.parametrize(
    "method", [name for name in NEW_ROWS if name not in ("fit_transform", "iterate", "code_blocks")]
)
def test_batches_with_rows_that_are_too_long_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match=TOO_LONG):
        list(NEW_ROWS[method](MODELS["robust-pca"], iter([X, with_a_long_row(1e160)])))


@every_size
def test_codes_that_are_too_large_are_refused(dtype: Any, size: float) -> None:
    codes = np.ones((5, 3), dtype=dtype)
    codes[3, 1] = size
    model = MODELS["robust-pca"]
    with pytest.raises(ValueError, match=r"The codes are of size .*: rescale X"):
        model.inverse_transform(codes)
    with pytest.raises(ValueError, match=TOO_LONG):
        model.inverse_transform(lazy(codes)).compute(scheduler="synchronous")
    with pytest.raises(ValueError, match=r"The codes are of size"):
        list(model.inverse_transform(iter([codes[:2], codes])))


@codes_may_stop_short
@every_estimator
def test_long_rows_within_the_range_have_finite_codes(name: str) -> None:
    for Z in (1e70 * X, (1e8 * X).astype(np.float32)):
        assert np.isfinite(MODELS[name].transform(Z)).all()


@codes_may_stop_short
@every_estimator
def test_short_rows_have_finite_codes(name: str) -> None:
    """Rows of rounding errors are coded as rows of zeros."""
    model = MODELS[name]
    zero = model.transform(np.zeros((1, 6)))
    for size in (1e-90, 1e-200, 5e-324):
        assert model.transform(size * X) == pytest.approx(np.repeat(zero, len(X), axis=0), abs=1e-6)
