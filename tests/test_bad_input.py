"""Bad parameters and data are refused with a message that names them; unusual data are fitted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from estimator_cases import (
    NAMES,
    ROTATING,
    WITH_ALPHA,
    automatic,
    codes_may_stop_short,
    corrupted,
    every_estimator,
    every_solver,
    fitted,
    make,
    rows,
)
from vrmf.arrays import Array
from vrmf.estimators import ESTIMATORS
from vrmf.solvers import SGD, SMM, VR, Algorithm1, Batch, Coder
from vrmf.terms import L1, GroupL2, MaxColumnNorm, Simplex, UnitBall, chain_laplacian

X = corrupted(rows())
D_ = X.shape[1]
NONNEGATIVE = ("nmf", "smooth-dictionary-learning")
INF, NAN = float("inf"), float("nan")
BAD_WEIGHTS = (0, -1.0, NAN, INF, "large", None, True, [1.0])


def refused(
    name: str, match: str, data: Any = X, kind: type[Exception] = ValueError, **options: Any
) -> None:
    """Assert that a fit with these options raises a message of one or more whole sentences."""
    with pytest.raises(kind, match=match) as caught:
        make(name, **options).fit(data)
    message = str(caught.value)
    assert message.endswith("."), f"not a sentence: {message}"
    assert "\n" not in message


def having(weight: str) -> list[str]:
    return [name for name in NAMES if hasattr(ESTIMATORS[name], weight)]


# Common parameters ----------------------------------------------------------------------------------

COMMON: list[tuple[str, Any]] = [
    *[("n_components", value) for value in (0, -1, 2.5, True, "3", None)],
    *[("max_iter", value) for value in (0, -5, 2.5, None)],
    *[("max_time", value) for value in (0, -1.0, NAN, INF, "1")],
    *[("tol", value) for value in (-1e-3, NAN, INF, "small", None)],
    *[("record_every", value) for value in (0, -1, 1.5, "epoch")],
    *[("n_jobs", value) for value in (0, 1.5, "all")],
    *[("verbose", value) for value in (-1, "loud", None)],
    *[("solver", value) for value in ("svrg", "VR", None, 3, VR)],
    *[("init", value) for value in ("kmeans", "Data", "")],
]


@pytest.mark.parametrize(("parameter", "value"), COMMON, ids=lambda value: repr(value)[:20])
@every_estimator
def test_common_parameters_are_checked(name: str, parameter: str, value: Any) -> None:
    if (name, parameter, value) == ("robust-pca", "n_components", None):
        return  # it finds the number
    refused(name, f"`{parameter}`.*{re.escape(repr(value))}.* Use ", **{parameter: value})


@pytest.mark.parametrize("name", NONNEGATIVE)
def test_nonnegative_models_cannot_centre(name: str) -> None:
    refused(name, "`center` is True.*without negative entries", center=True)


@every_estimator
def test_a_stream_cannot_be_centred(name: str) -> None:
    with pytest.raises(ValueError, match="`center` is True"):
        make(name, center=True).partial_fit(X)


@every_estimator
def test_streams_and_iterates_check_parameters_too(name: str) -> None:
    with pytest.raises(ValueError, match="`n_components` is 0"):
        make(name, n_components=0).partial_fit(X)
    with pytest.raises(ValueError, match="`max_iter` is 0"):
        list(make(name, max_iter=0).iterate(X))


# Weights --------------------------------------------------------------------------------------------

WEIGHTS = ("alpha", "outlier_alpha", "smoothness", "dictionary_alpha", "max_code", "max_outlier")


#: Models whose codes are bounded without ``alpha``.
MAY_BE_ZERO = ("nmf", "smooth-dictionary-learning")


@pytest.mark.parametrize(
    ("name", "weight", "value"),
    [
        (name, weight, value)
        for weight in WEIGHTS
        for name in having(weight)
        for value in BAD_WEIGHTS
        if not (weight == "alpha" and name in MAY_BE_ZERO and value == 0)
    ],
)
def test_weights_must_be_positive(name: str, weight: str, value: Any) -> None:
    refused(name, f"`{weight}` is {re.escape(repr(value))}. Use a", **{weight: value})


@pytest.mark.parametrize("value", [-1e-9, NAN, INF, "auto", None], ids=repr)
@pytest.mark.parametrize("name", having("ridge"))
def test_a_ridge_may_be_zero_but_not_negative(name: str, value: Any) -> None:
    refused(name, f"`ridge` is {value!r}. Use a finite number of at least 0", ridge=value)


def test_every_weight_is_in_the_tables() -> None:
    assert set(WITH_ALPHA) == set(NAMES) - {"robust-nmf", "matrix-factorization"}
    assert all(having(weight) for weight in (*WEIGHTS, "ridge"))


# Solvers --------------------------------------------------------------------------------------------

NOT_POSITIVE: tuple[Any, ...] = (0, -1.0, NAN, INF, "fast", None, True)
NOT_COUNTS: tuple[Any, ...] = (0, -1, 1.5, "many", None, True)
OPTIONS: list[tuple[Any, str, Any]] = [
    *[(solver, "batch_size", value) for solver in (VR, SMM, SGD) for value in NOT_COUNTS],
    *[(VR, "inner_steps", value) for value in NOT_COUNTS],
    *[(solver, "step_size", value) for solver in (VR, Batch) for value in NOT_POSITIVE],
    *[(Algorithm1, "option", value) for value in ("first", 1, None)],
    *[(Algorithm1, "tau", value) for value in (0, -0.5, NAN, "auto")],
    *[(VR, "cache_megabytes", value) for value in (-1, NAN, INF, "auto", None)],
    *[(SMM, "forgetting", value) for value in (-1, NAN, INF, "auto", None)],
    *[(SMM, "sweeps", value) for value in (0, 1.5, "auto", None)],
    *[(SGD, option, value) for option in ("scale", "offset") for value in NOT_POSITIVE],
    *[(Coder, "tol", value) for value in (0, -1, NAN, "auto", None)],
    *[(Coder, "max_iter", value) for value in (0, 1.5, "auto", None)],
    *[(Coder, "method", value) for value in ("lars", None)],
]


@pytest.mark.parametrize(("solver", "option", "value"), OPTIONS, ids=lambda value: repr(value)[-20:])
def test_options_of_solvers_are_checked(solver: Any, option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^`{option}` is {re.escape(repr(value))}. Use .*\\.$"):
        solver(**{option: value})


@pytest.mark.parametrize("solver", [VR, SMM, SGD, Batch])
def test_a_coder_must_be_a_coder(solver: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`coder` is 1e-06"):
        solver(coder=1e-6)


def test_options_are_checked_by_set_params() -> None:
    with pytest.raises(ValueError, match="`step_size` is -1"):
        make("nmf").set_params(solver__step_size=-1)


@pytest.mark.parametrize("solver", [VR, SMM, SGD])
@every_estimator
def test_a_batch_larger_than_the_data_is_refused(name: str, solver: Any) -> None:
    refused(
        name, "`batch_size` is 25 but the data has 24 rows. Use at most 24", solver=solver(batch_size=25)
    )
    make(name, solver=solver(batch_size=24), max_iter=1).fit(X)


# Terms ----------------------------------------------------------------------------------------------

NOT_TERMS: list[tuple[str, Any]] = [
    *[(part, value) for part in ("code", "dictionary", "outliers") for value in (0.1, "l1", L1)],
    ("code", MaxColumnNorm(1.0)),
    ("outliers", MaxColumnNorm(1.0)),
]


@pytest.mark.parametrize(("part", "value"), NOT_TERMS, ids=lambda value: repr(value)[:20])
def test_parts_of_a_formulation_are_terms(part: str, value: Any) -> None:
    refused("matrix-factorization", f"`{part}` is .*vrmf.terms", kind=TypeError, **{part: value})


@pytest.mark.parametrize(
    ("part", "columns"), [("code", "3"), ("dictionary", "6"), ("outliers", "6")], ids=lambda value: value
)
def test_terms_of_another_width_are_refused(part: str, columns: str) -> None:
    other: Any = GroupL2([[0, 1], [2, 3]], [0.1, 0.1])
    refused(
        "matrix-factorization",
        rf"The {part} term GroupL2 is made for 4 columns, but there are {columns}",
        **{part: other},
    )


# Groups ---------------------------------------------------------------------------------------------

GROUPS: dict[str, tuple[Any, str]] = {
    "leaves out": ([[0], [1]], r"`groups` leaves out the atoms \[2\]"),
    "exceeds": ([[0, 1], [2, 3]], r"`groups` names the atoms \[3\]"),
    "negative": ([[0, 1], [2, -1]], r"`groups` names the atoms \[-1\]"),
    "empty group": ([[0, 1, 2], []], r"`groups\[1\]`"),
    "named twice": ([[0, 1, 1], [2]], r"`groups\[0\]`"),
    "none": ([], r"`groups` leaves out the atoms \[0, 1, 2\]"),
    "flat": ([0, 1, 2], "`groups`"),
    "word": ("pairs", "`groups`"),
    "fractions": ([[0, 1.5], [1, 2]], "`groups`"),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups_must_name_each_atom(case: str) -> None:
    groups, match = GROUPS[case]
    refused("group-dictionary-learning", match, groups=groups)


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 2.0, 3.0], [1.0, -1.0], [1.0, NAN], [1.0, "2"], 2.0], ids=repr
)
def test_group_weights_are_one_for_each_group(weights: Any) -> None:
    refused("group-dictionary-learning", "`group_weights`", groups=[[0, 1], [2]], group_weights=weights)


def test_an_unbounded_dictionary_warns() -> None:
    with pytest.warns(UserWarning, match="bounded=False the objective has no minimiser"):
        make("group-dictionary-learning", bounded=False).fit(X)


# Laplacians -----------------------------------------------------------------------------------------


def skew() -> Array:
    L = chain_laplacian(D_).toarray()
    L[0, 1] = 5
    return L


LAPLACIANS: dict[str, tuple[Any, str]] = {
    "not symmetric": (skew(), "`laplacian`.*not symmetric"),
    "not symmetric, sparse": (scipy.sparse.csr_array(skew()), "`laplacian`.*not symmetric"),
    "negative": (-np.eye(D_), "`laplacian`.*negative eigenvalue"),
    "negative, sparse": (-chain_laplacian(D_), "`laplacian`.*negative eigenvalue"),
    "indefinite": (np.diag([1.0] * (D_ - 1) + [-0.1]), "`laplacian`.*negative eigenvalue"),
    "too small": (np.eye(D_ - 1), r"`laplacian` has shape \(5, 5\). Use \(6, 6\)"),
    "too large": (chain_laplacian(D_ + 1), r"`laplacian` has shape \(7, 7\)"),
    "not square": (np.ones((D_, 2)), r"`laplacian` has shape \(6, 2\)"),
    "flat": (np.ones(D_), r"`laplacian` has shape \(6,\)"),
    "none": (None, r"`laplacian` has shape \(\)"),
    "nan": (np.full((D_, D_), NAN), "`laplacian`.*NaN"),
    "word": ("ring", '`laplacian` is \'ring\'. Use "chain", "grid"'),
    "image": ((2, 2), "`laplacian` describes an image of 2 × 2 pixels, but there are 6 features"),
    "image of no height": ((0, 6), "`laplacian` is 0"),
    "image of fractions": ((1.5, 4), "`laplacian` is 1.5"),
    "volume": ((1, 2, 3), "`laplacian`"),
    "grid": ("grid", "`laplacian` describes an image of 2 × 2 pixels, but there are 6 features"),
}


@pytest.mark.parametrize("case", LAPLACIANS)
def test_laplacians_are_checked(case: str) -> None:
    laplacian, match = LAPLACIANS[case]
    refused("smooth-dictionary-learning", match, laplacian=laplacian)


# Bases ----------------------------------------------------------------------------------------------

BASES: dict[str, tuple[dict[str, Any], str]] = {
    "basis: columns": ({"basis": np.eye(4)}, r"`basis` has shape \(4, 4\). Use \(p, 6\)"),
    "basis: flat": ({"basis": np.ones(D_)}, r"`basis` has shape \(6,\)"),
    "basis: empty": ({"basis": np.ones((0, D_))}, r"`basis` has shape \(0, 6\)"),
    "basis: nan": ({"basis": np.full((2, D_), NAN)}, "`basis` has NaN"),
    "basis: infinite": ({"basis": np.full((2, D_), INF)}, "`basis` has NaN or infinite"),
    "basis: word": ({"basis": "random"}, "`basis`"),
    "basis_map": (
        {"basis_map": np.eye(4), "residual_map": np.eye(D_)},
        r"`basis_map` has shape \(4, 4\). Use \(6, 6\)",
    ),
    "residual_map": (
        {"residual_map": np.ones(D_), "basis_map": np.eye(D_)},
        r"`residual_map` has shape \(6,\)",
    ),
    "basis_map: nan": (
        {"basis_map": np.full((D_, D_), NAN), "residual_map": np.eye(D_)},
        "`basis_map`.*NaN",
    ),
    "residual_map: nan": (
        {"residual_map": np.full((D_, D_), NAN), "basis_map": np.eye(D_)},
        "`residual_map`.*NaN",
    ),
}


@pytest.mark.parametrize("case", BASES)
def test_bases_are_checked(case: str) -> None:
    options, match = BASES[case]
    refused("low-rank-representation", match, **options)


def test_a_singular_penalty_warns() -> None:
    maps = {"basis_map": np.zeros((D_, D_)), "residual_map": np.diag([1.0] * (D_ - 1) + [0.0])}
    with pytest.warns(UserWarning, match="`basis_map` and `residual_map` make Q singular"):
        make("low-rank-representation", **maps).fit(X)


# Initial dictionaries -------------------------------------------------------------------------------

INFEASIBLE = {
    "dictionary-learning": 2 * np.eye(3, D_),
    "group-dictionary-learning": 1.001 * np.eye(3, D_),
    "nmf": 0.5 * np.eye(3, D_),
    "smooth-dictionary-learning": np.eye(3, D_) - 0.1 * np.eye(3, D_, 1) + 0.1 * np.eye(3, D_, 2),
    "robust-nmf": -0.5 * np.eye(3, D_),
    "matrix-factorization": np.ones((3, D_)),
}


@pytest.mark.parametrize("name", INFEASIBLE)
def test_an_infeasible_start_is_refused(name: str) -> None:
    refused(name, r"`init` is infeasible: it lies outside of the set", init=INFEASIBLE[name])


@pytest.mark.parametrize(
    ("init", "match"),
    [
        (np.eye(2, D_), r"`init` has shape \(2, 6\). Use \(3, 6\)"),
        (np.eye(3, D_ + 1), r"`init` has shape \(3, 7\). Use \(3, 6\)"),
        (np.ones(3 * D_), r"`init` has shape \(18,\)"),
        (np.full((3, D_), NAN), "`init` has NaN"),
        (np.full((3, D_), INF), "`init` has NaN or infinite"),
        (None, r"`init`"),
        ([[1.0, 0.0], [1.0]], r"`init`"),
    ],
    ids=["atoms", "features", "flat", "nan", "infinite", "none", "ragged"],
)
@every_estimator
def test_a_start_of_the_wrong_shape_or_kind_is_refused(name: str, init: Any, match: str) -> None:
    refused(name, match, init=init)


@pytest.mark.parametrize("given", [Simplex(), UnitBall()])
def test_the_start_must_suit_a_term_of_the_user(given: Any) -> None:
    match = f"`init` is infeasible.*{type(given).__name__}"
    refused("matrix-factorization", match, init=np.ones((3, D_)), dictionary=given)


# Data -----------------------------------------------------------------------------------------------


def spoiled(value: float) -> Array:
    Z = X.copy()
    Z[3, 2] = value
    return Z


DATA: dict[str, tuple[Any, str]] = {
    "nan": (spoiled(NAN), "row 3, column 2 of the data is nan"),
    "infinity": (spoiled(INF), "row 3, column 2 of the data is inf"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "flat": (X[0], "Expected 2D array, got 1D"),
    "scalar": (3.0, "Expected 2D array, got scalar"),
    "deep": (X[None], r"Found array with dim 3.*X.reshape\(len\(X\), -1\)"),
    "words": (np.array([["a", "b"]]), "could not convert|Unable to convert"),
    "complex": (X + 1j, "Complex data not supported"),
}
METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "fit": lambda model, Z: model.fit(Z),
    "fit_transform": lambda model, Z: model.fit_transform(Z),
    "partial_fit": lambda model, Z: model.partial_fit(Z),
    "iterate": lambda model, Z: next(iter(model.iterate(Z))),
}
NEW_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "transform": lambda model, Z: model.transform(Z),
    "decompose": lambda model, Z: model.decompose(Z),
    "objective": lambda model, Z: model.objective(Z),
    "score": lambda model, Z: model.score(Z),
    "score_samples": lambda model, Z: model.score_samples(Z),
    "explained_variance_ratio": lambda model, Z: model.explained_variance_ratio(Z),
}


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("method", METHODS)
@every_estimator
def test_bad_data_are_refused(name: str, method: str, case: str) -> None:
    data, match = DATA[case]
    with pytest.raises(ValueError, match=match):
        METHODS[method](make(name), data)


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("method", NEW_ROWS)
@every_estimator
def test_bad_new_rows_are_refused(name: str, method: str, case: str) -> None:
    data, match = DATA[case]
    if case in ("no columns", "words"):
        match += "|is expecting 6 features"
    with pytest.raises(ValueError, match=match):
        NEW_ROWS[method](fitted(name), data)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NONNEGATIVE)
def test_negative_data_are_refused(name: str, method: str) -> None:
    with pytest.raises(ValueError, match=r"Negative values .*smallest entry is -0\.5.*RobustNMF"):
        METHODS[method](make(name), spoiled(-0.5))


def test_robust_nmf_takes_negative_data() -> None:
    model = make("robust-nmf").fit(spoiled(-5.0))
    L, S = model.decompose(spoiled(-5.0))
    assert L.min() >= 0 and S[3, 2] < -4


@pytest.mark.parametrize("method", NEW_ROWS)
@every_estimator
def test_the_number_of_features_is_that_of_the_fit(name: str, method: str) -> None:
    with pytest.raises(ValueError, match=r"X has 5 features, but \w+ is expecting 6 features"):
        NEW_ROWS[method](fitted(name), X[:, :5])


@every_estimator
def test_the_number_of_features_is_that_of_the_stream(name: str) -> None:
    for model in (make(name).partial_fit(X), make(name).fit(X)):
        with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6 features"):
            model.partial_fit(X[:, :5])


@every_estimator
def test_codes_have_a_column_for_each_component(name: str) -> None:
    with pytest.raises(ValueError, match=r"The codes have 4 columns\. Use 3, one for each component"):
        fitted(name).inverse_transform(np.ones((2, 4)))
    with pytest.raises(ValueError, match="contains NaN"):
        fitted(name).inverse_transform(np.full((2, 3), NAN))


UNFITTED = NEW_ROWS | {
    "inverse_transform": lambda model, Z: model.inverse_transform(Z[:, :3]),
    "get_feature_names_out": lambda model, Z: model.get_feature_names_out(),
}


@pytest.mark.parametrize("method", UNFITTED)
@every_estimator
def test_a_model_must_be_fitted_first(name: str, method: str) -> None:
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        UNFITTED[method](make(name), X)


@every_estimator
def test_a_refused_fit_leaves_the_old_model(name: str) -> None:
    model = make(name).fit(X)
    D = model.components_
    with pytest.raises(ValueError, match="`init` is 'nonsense'"):
        model.set_params(init="nonsense").fit(X)
    assert model.components_ is D
    assert np.array_equal(model.transform(X), fitted(name).transform(X))


def test_a_refused_fit_leaves_the_old_mean() -> None:
    model = make("robust-pca", center=True).fit(X)
    expected = model.transform(X)
    with pytest.raises(ValueError, match="`init` is 'nonsense'"):
        model.set_params(init="nonsense").fit(X + 1)
    assert np.array_equal(model.transform(X), expected)


# What is odd but works ------------------------------------------------------------------------------


def constant(Z: Array) -> Array:
    Z = Z.copy()
    Z[:, 1] = 2.0
    return Z


def with_zero_rows(Z: Array) -> Array:
    Z = Z.copy()
    Z[::3] = 0
    return Z


SMALL = corrupted(rows(n=12, d=5))
ODD: dict[str, tuple[Array, int]] = {
    "one sample": (SMALL[:1], 2),
    "two samples": (SMALL[:2], 1),
    "a constant feature": (constant(SMALL), 2),
    "constant data": (np.full((8, 4), 3.0), 2),
    "zero rows": (with_zero_rows(SMALL), 2),
    "a zero feature": (SMALL * np.array([1.0, 1, 0, 1, 1]), 2),
    "a single nonzero entry": (np.eye(5)[:1].repeat(4, axis=0) * np.array([[1.0], [0], [0], [0]]), 2),
    "more atoms than rows": (SMALL[:3], 5),
    "more atoms than features": (SMALL[:, :2], 4),
    "one feature": (SMALL[:, :1], 2),
    "duplicate rows": (np.repeat(SMALL[:2], 6, axis=0), 3),
    "large, single precision": ((1e6 * SMALL).astype(np.float32), 2),
    "small, single precision": ((1e-6 * SMALL).astype(np.float32), 2),
}


@pytest.mark.parametrize(("n", "d", "k", "words"), [(3, 4, 5, "for 3 rows"), (50, 2, 21, "for 2 features")])
def test_more_components_than_make_sense_are_warned_of(n: int, d: int, k: int, words: str) -> None:
    with pytest.warns(UserWarning, match=f"n_components={k} {words}: .* Use"):
        make("dictionary-learning", n_components=k).fit(rows(n, d))


@codes_may_stop_short
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:.*No component stands out from the noise:UserWarning")
@pytest.mark.parametrize("case", ODD)
@every_solver
@every_estimator
def test_models_of_odd_data_are_finite_and_feasible(name: str, solver: str, case: str) -> None:
    data, k = ODD[case]
    model = automatic(name, n_components=k, solver=solver).fit(data)
    D = model.components_
    finds_rank = name in ROTATING
    assert 1 <= len(D) <= k and D.dtype == data.dtype and (finds_rank or len(D) == k)
    assert np.isfinite(D).all() and math.isfinite(model.objective_) and math.isfinite(model.stationarity_)
    assert math.isfinite(model.formulation_.dictionary.value(D)), "infeasible"
    L, S = model.decompose(data)
    assert np.isfinite(L).all() and np.isfinite(S).all()


@codes_may_stop_short
@pytest.mark.parametrize("solver", ["smm", "sgd"])
@pytest.mark.parametrize("case", ODD)
@every_estimator
def test_models_of_odd_streams_are_finite_and_feasible(name: str, case: str, solver: str) -> None:
    data, k = ODD[case]
    model = make(name, n_components=k, solver=solver).partial_fit(data).partial_fit(data[:1])
    assert np.isfinite(model.components_).all() and model.components_.dtype == data.dtype
    assert math.isfinite(model.formulation_.dictionary.value(model.components_)), "infeasible"


@every_solver
@every_estimator
def test_data_that_are_all_zero_warn_and_give_a_feasible_model(name: str, solver: str) -> None:
    model = make(name, solver=solver)
    with pytest.warns(UserWarning, match="All codes of .* are zero"):
        model.fit(np.zeros((6, 4)))
    assert np.isfinite(model.components_).all()
    assert math.isfinite(model.formulation_.dictionary.value(model.components_))
    penalty = model.formulation_.dictionary.value(model.components_)
    assert model.objective_ == pytest.approx(penalty)
    assert not model.decompose(np.zeros((2, 4)))[0].any()


@every_estimator
def test_more_components_than_memory_holds_are_refused_at_once(name: str) -> None:
    for learn in ("fit", "fit_transform", "partial_fit"):
        with pytest.raises(ValueError, match=r"`n_components` \(-k\) is 10+\. .* Use fewer components"):
            getattr(make(name, n_components=10**9), learn)(rows())


@every_estimator
def test_dates_are_refused(name: str) -> None:
    dates = np.datetime64("2020-01-01") + np.arange(40).reshape(10, 4)
    for data in (dates, dates - dates[0]):
        for learn in ("fit", "fit_transform", "partial_fit"):
            with pytest.raises(ValueError, match=r"^The data are of dtype .*64\[D\]\. Use real numbers\.$"):
                getattr(make(name), learn)(data)
