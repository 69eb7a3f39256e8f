"""scikit-learn's contract, for every estimator."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import estimator_cases
from estimator_cases import (
    NAMES,
    WITH_ALPHA,
    codes_may_stop_short,
    corrupted,
    every_estimator,
    every_solver,
    rows,
)
from vrmf import RobustPCA
from vrmf.arrays import Array
from vrmf.estimators import AbstractFactorizer
from vrmf.solvers import SGD, SMM, SOLVERS, VR, Algorithm1
from vrmf.terms import L1, NonNegative, Ridge

X = corrupted(rows())

#: Further parameters of every kind, none of them a default: names, numbers, lists, arrays, solvers, terms.
NONDEFAULT: dict[str, Any] = {
    "dictionary-learning": {"solver": VR(step_size=0.3, coder=SMM().coder), "alpha": 0.2, "ridge": 0.1},
    "group-dictionary-learning": {"groups": [[0, 1], [1, 2]], "group_weights": [1.0, 0.5]},
    "nmf": {"alpha": 0.3, "solver": "smm"},
    "smooth-dictionary-learning": {"laplacian": (2, 3), "smoothness": 0.7},
    "robust-pca": {"solver": SGD(batch_size=5), "center": True, "outlier_alpha": 0.4},
    "max-norm-decomposition": {"alpha": 2.0, "ridge": 0.1},
    "low-rank-representation": {"basis": np.eye(6)[:4], "dictionary_alpha": 3.0},
    "robust-nmf": {"max_code": 3.0, "init": "random"},
    "matrix-factorization": {"code": L1(0.1) + NonNegative(), "outliers": L1(0.5)},
}


def make(name: str, **options: Any) -> AbstractFactorizer:
    """Return a small estimator of one epoch, which is enough for the interface."""
    return estimator_cases.make(name, **({"max_iter": 1} | options))


def fitted(name: str, solver: str = "vr") -> AbstractFactorizer:
    return estimator_cases.fitted(name, solver, max_iter=1)


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of a parameter agree, arrays by their entries."""
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def same_params(one: AbstractFactorizer, other: AbstractFactorizer) -> bool:
    first, second = one.get_params(), other.get_params()
    return first.keys() == second.keys() and all(same_value(first[key], second[key]) for key in first)


# scikit-learn's own checks ------------------------------------------------------------------------


def quick(name: str) -> AbstractFactorizer:
    """Return an estimator with little to do; a ridge makes codes easy where there is one."""
    model = make(name, n_components=2, random_state=None).set_params(solver__inner_steps=2)
    return model.set_params(ridge=0.1) if hasattr(model, "ridge") else model


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([quick(name) for name in NAMES])
def test_checks_of_scikit_learn(estimator: AbstractFactorizer, check: Callable[[Any], None]) -> None:
    check(estimator)


# Copies -------------------------------------------------------------------------------------------


@every_estimator
def test_clone_keeps_parameters_and_forgets_results(name: str) -> None:
    model = make(name, **NONDEFAULT.get(name, {})).fit(X)
    copied = clone(model)
    assert same_params(copied, model)
    assert not [key for key in vars(copied) if key.endswith("_") and not key.startswith("_")]
    assert np.array_equal(copied.fit(X).components_, model.components_)


@every_estimator
@pytest.mark.parametrize(
    "duplicate",
    [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy],
    ids=["pickle", "deepcopy"],
)
def test_copies_keep_parameters_and_results(name: str, duplicate: Callable[[Any], Any]) -> None:
    model = make(name, **NONDEFAULT.get(name, {})).fit(X)
    other = duplicate(model)
    assert same_params(other, model)
    assert other.components_ is not model.components_
    assert np.array_equal(other.components_, model.components_)
    assert np.array_equal(other.transform(X), model.transform(X))
    assert other.objective_ == model.objective_ and other.stop_reason_ == model.stop_reason_
    assert other.formulation_ == model.formulation_ and other.solver_ == model.solver_
    assert other.history_["step"] == model.history_["step"]


@every_estimator
def test_a_pickled_stream_goes_on_as_the_original(name: str) -> None:
    model = make(name).partial_fit(X[:10])
    other = pickle.loads(pickle.dumps(model))
    assert np.array_equal(other.partial_fit(X[10:]).components_, model.partial_fit(X[10:]).components_)
    assert other.n_samples_seen_ == len(X)


# Composition --------------------------------------------------------------------------------------


@every_estimator
def test_a_pipeline_codes_the_scaled_rows(name: str) -> None:
    scaler = MinMaxScaler(clip=True) if make(name)._nonnegative else StandardScaler()
    pipe = make_pipeline(scaler, make(name)).fit(X)
    codes = pipe.transform(X)
    assert np.array_equal(codes, make(name).fit(scaler.transform(X)).transform(scaler.transform(X)))
    assert pipe.score(X) == -pipe[-1].objective(scaler.transform(X))
    assert list(pipe.get_feature_names_out()) == list(pipe[-1].get_feature_names_out())


@pytest.mark.parametrize("name", WITH_ALPHA)
def test_grid_search_over_alpha(name: str) -> None:
    grid = {"alpha": [0.05, 0.5]}
    search = GridSearchCV(make(name), grid, cv=2).fit(X)
    first, second = search.cv_results_["mean_test_score"]
    assert np.isfinite([first, second]).all() and first != second
    assert search.best_estimator_.alpha == search.best_params_["alpha"]
    assert search.best_score_ == max(first, second)


@every_estimator
@pytest.mark.parametrize("solver", ["vr", VR(batch_size=4)], ids=["name", "value"])
def test_grid_search_over_an_option_of_the_solver(name: str, solver: Any) -> None:
    grid = {"solver__step_size": [1e-8, "auto"], "solver__opening": [False]}
    search = GridSearchCV(make(name, solver=solver, max_iter=10), grid, cv=2)
    search.fit(X)
    stuck, moving = search.cv_results_["mean_test_score"]
    assert moving > stuck, "a step of nearly nothing was as good as the automatic one"
    assert search.best_estimator_.solver_ == (
        VR(opening=False) if solver == "vr" else VR(batch_size=4, opening=False)
    )


def test_grid_search_over_solvers() -> None:
    solvers = [*SOLVERS.keys() - {"algorithm1"}, Algorithm1(inner_steps=3), SMM(forgetting=1.0)]
    search = GridSearchCV(make("nmf"), {"solver": solvers}, cv=2).fit(X)
    assert len(set(search.cv_results_["mean_test_score"])) == len(solvers)
    best = search.best_params_["solver"]
    assert type(search.best_estimator_.solver_) is (SOLVERS[best] if isinstance(best, str) else type(best))


def test_grid_search_over_an_option_of_a_term() -> None:
    model = make("matrix-factorization", code=L1(1.0))
    search = GridSearchCV(model, {"code__weight": [0.01, 2.0]}, cv=2).fit(X)
    assert search.best_estimator_.code == L1(0.01)
    assert search.best_estimator_.formulation_.code == L1(0.01)
    assert model.code == L1(1.0), "the search changed the model that it was given"


# Parameters ---------------------------------------------------------------------------------------


@every_estimator
def test_get_params_lists_options_of_the_solver(name: str) -> None:
    flat, deep = make(name).get_params(deep=False), make(name).get_params(deep=True)
    assert flat.items() <= deep.items()
    assert not [key for key in flat if "__" in key]
    assert deep["solver__step_size"] == "auto" and deep["solver__coder"] == VR().coder
    assert make(name, solver=SMM(sweeps=4)).get_params()["solver__sweeps"] == 4
    assert "solver__step_size" not in make(name, solver="smm").get_params()


def test_get_params_lists_options_of_terms() -> None:
    model = make("matrix-factorization", code=Ridge(0.5), outliers=L1(2.0))
    assert model.get_params()["code__weight"] == 0.5
    assert model.get_params()["outliers__weight"] == 2.0
    assert "dictionary__weight" not in model.get_params()


@every_estimator
def test_set_params_replaces_values_and_changes_none(name: str) -> None:
    solver = VR(batch_size=5)
    model = make(name, solver=solver).set_params(solver__step_size=0.5, max_iter=7)
    assert model.solver == VR(batch_size=5, step_size=0.5) and model.max_iter == 7
    assert solver == VR(batch_size=5)
    assert model.set_params(solver="sgd", solver__offset=3.0).solver == SGD(offset=3.0)
    assert model.set_params(**make(name).get_params(deep=False)).get_params() == make(name).get_params()


@every_estimator
def test_set_params_with_an_unknown_name_names_the_choices(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"'nonsense' is not a parameter of \w+\. Use one of .*n_components"
    ):
        make(name).set_params(nonsense=1)
    with pytest.raises(
        ValueError, match=r"'nonsense' is not an option of solver='vr'.*batch_size.*step_size"
    ):
        make(name).set_params(solver__nonsense=1)
    with pytest.raises(ValueError, match=r"'step_size' is not an option of solver=SMM.*sweeps"):
        make(name).set_params(solver=SMM(), solver__step_size=1.0)
    with pytest.raises(ValueError, match=r"'low' is not an option of max_iter=1.*it has no options"):
        make(name).set_params(max_iter__low=1)


def test_set_params_on_a_term_names_its_choices() -> None:
    model = make("matrix-factorization", code=L1(1.0))
    with pytest.raises(
        ValueError, match=r"'alpha' is not an option of code=L1\(weight=1.0\)\. Use one of weight"
    ):
        model.set_params(code__alpha=2.0)
    assert model.set_params(code__weight=2.0).code == L1(2.0)


# Names of features --------------------------------------------------------------------------------


@every_estimator
def test_names_of_data_frames_are_those_of_input_and_output(name: str) -> None:
    columns = [f"pixel {j}" for j in range(X.shape[1])]
    frame = pandas.DataFrame(X, columns=columns, index=np.arange(len(X)) + 100)
    model = make(name).set_output(transform="pandas").fit(frame)
    assert list(model.feature_names_in_) == columns
    expected = [f"{type(model).__name__.lower()}{j}" for j in range(3)]
    assert list(model.get_feature_names_out()) == expected
    codes = model.transform(frame)
    assert isinstance(codes, pandas.DataFrame)
    assert list(codes.columns) == expected and list(codes.index) == list(frame.index)
    assert np.array_equal(codes.to_numpy(), fitted(name).transform(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[columns[::-1]])


# Precision ----------------------------------------------------------------------------------------


@codes_may_stop_short
@every_solver
@every_estimator
def test_single_precision_stays(name: str, solver: str) -> None:
    single = X.astype(np.float32)
    model = make(name, solver=solver)
    codes = model.fit_transform(single)
    low_rank, outliers = model.decompose(single)
    dtypes = {
        "components_": model.components_.dtype,
        "fit_transform": codes.dtype,
        "transform": model.transform(single).dtype,
        "inverse_transform": model.inverse_transform(codes).dtype,
        "low rank": low_rank.dtype,
        "outliers": outliers.dtype,
        "iterate": next(iter(model.iterate(single))).D.dtype,
        "partial_fit": make(name, solver=solver).partial_fit(single).components_.dtype,
    }
    assert set(dtypes.values()) == {np.dtype(np.float32)}, dtypes


@every_estimator
def test_single_precision_does_not_warn_of_rounding(name: str) -> None:
    make(name).fit(X.astype(np.float32))


@codes_may_stop_short
@every_estimator
def test_a_model_of_single_precision_scores_double_rows(name: str) -> None:
    single = make(name).fit(X.astype(np.float32))
    assert single.objective_ == pytest.approx(single.objective(X), rel=1e-4)


@codes_may_stop_short
@every_estimator
def test_precision_may_change_between_fits(name: str) -> None:
    model = make(name, warm_start=True).fit(X.astype(np.float32))
    assert model.fit(X).components_.dtype == np.float64
    assert model.fit(X.astype(np.float32)).components_.dtype == np.float32
    stream = make(name).partial_fit(X[:9].astype(np.float32)).partial_fit(X[9:])
    assert np.isfinite(stream.objective(X))


@every_estimator
def test_precision_of_the_codes_is_that_of_the_new_rows(name: str) -> None:
    model = fitted(name)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert model.components_.dtype == np.float64
    assert model.inverse_transform(single) == pytest.approx(model.decompose(X)[0], abs=1e-2 * np.max(X))


# Determinism --------------------------------------------------------------------------------------


@every_solver
@every_estimator
def test_the_same_seed_gives_the_same_bits(name: str, solver: str) -> None:
    model = fitted(name, solver)
    again = make(name, solver=solver).fit(X)
    assert np.array_equal(again.components_, model.components_) and again.objective_ == model.objective_
    assert again.history_["objective"][-1] == model.history_["objective"][-1]
    other = make(name, solver=solver, random_state=1).fit(X)
    assert not np.array_equal(other.components_, model.components_)


@pytest.mark.parametrize("solver", ["vr", "smm", "sgd"])
def test_the_seed_chooses_the_batches_too(solver: str) -> None:
    start = fitted("nmf", "batch").components_
    one, other = (make("nmf", solver=solver, init=start, random_state=seed).fit(X) for seed in (0, 1))
    assert not np.array_equal(one.components_, other.components_)


@every_estimator
def test_a_generator_as_seed_moves_on(name: str) -> None:
    generator = np.random.RandomState(0)
    model = make(name, random_state=generator)
    first, second = model.fit(X).components_, model.fit(X).components_
    assert not np.array_equal(first, second)
    model.set_params(random_state=np.random.RandomState(0))
    assert np.array_equal(model.fit(X).components_, first)


@pytest.mark.parametrize("solver", ["vr", "batch"])
@every_estimator
def test_bits_do_not_depend_on_threads(name: str, solver: str) -> None:
    many = rows(n=520, d=4, rank=2)  # more than one block of rows
    one, two = (make(name, n_components=2, solver=solver, n_jobs=n_jobs).fit(many) for n_jobs in (1, 2))
    assert np.array_equal(one.components_, two.components_)
    assert one.objective_ == two.objective_
    assert np.array_equal(one.transform(many), two.transform(many))


CENTRINGS = [  # centred data have negative entries
    (name, center) for name in NAMES for center in (False, True) if not (center and make(name)._nonnegative)
]


@pytest.mark.parametrize("name, center", CENTRINGS)
def test_fit_transform_is_fit_then_transform(name: str, center: bool) -> None:
    codes = make(name, center=center).fit_transform(X)
    fit = make(name, center=True).fit(X) if center else fitted(name)
    assert np.array_equal(codes, fit.transform(X))


# Input --------------------------------------------------------------------------------------------


@every_estimator
def test_input_is_not_modified(name: str) -> None:
    data, atoms = X.copy(), fitted(name).components_.copy()
    kept = atoms.copy()
    model = make(name, init=atoms)
    model.fit(data)
    codes = model.transform(data)
    codes_kept = codes.copy()
    for method in (model.decompose, model.objective, model.score_samples, model.partial_fit):
        method(data)
    model.inverse_transform(codes)
    assert np.array_equal(data, X)
    assert np.array_equal(atoms, kept)
    assert np.array_equal(codes, codes_kept)
    assert not np.shares_memory(model.components_, atoms)


def read_only(Z: Array) -> Array:
    Z = Z.copy()
    Z.flags.writeable = False
    return Z


def strided(Z: Array) -> Array:
    wide = np.full((2 * len(Z), 3 * Z.shape[1]), np.nan)
    wide[::2, ::3] = Z
    return wide[::2, ::3]


@pytest.mark.parametrize(
    "layout",
    [read_only, np.asfortranarray, strided, lambda Z: Z[::-1].copy()[::-1]],
    ids=["read-only", "fortran", "strided", "reversed"],
)
@every_estimator
def test_the_layout_of_the_data_does_not_matter(name: str, layout: Callable[[Array], Any]) -> None:
    expected, model = fitted(name), make(name).fit(layout(X))
    assert np.array_equal(model.components_, expected.components_)
    assert np.array_equal(model.transform(layout(X)), expected.transform(X))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float16])
@every_estimator
def test_other_numbers_become_floats(name: str, dtype: Any) -> None:
    data = X > np.median(X) if dtype is np.bool_ else np.round(3 * X).astype(dtype)
    model, expected = make(name).fit(data), make(name).fit(data.astype(np.float64))
    assert np.array_equal(model.components_, expected.components_)
    assert np.array_equal(model.transform(data), expected.transform(data.astype(np.float64)))


# Going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["vr", "batch"])
@every_estimator
def test_a_warm_start_goes_on(name: str, solver: str) -> None:
    model = make(name, solver=solver, warm_start=True, max_iter=2).fit(X)
    first = model.objective_
    start = next(iter(model.iterate(X)))
    assert np.array_equal(start.D, model.components_)
    assert model.fit(X).objective_ <= first


@pytest.mark.slow
def test_a_warm_start_needs_the_same_shape() -> None:
    model = RobustPCA(2, alpha=0.7, outlier_alpha=0.3, warm_start=True, tol=0).fit(X)
    with pytest.raises(ValueError, match=r"`components_` has shape \(2, 6\)\. Use \(3, 6\)"):
        model.set_params(n_components=3).fit(X)
