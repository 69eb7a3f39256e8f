"""Every row of docs/coming_from.md, run against the other library where it is installed."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import decomposition as sk

import vrmf
from estimator_cases import corrupted, cosines, rows
from vrmf.coding import Atoms, Coder
from vrmf.problem import Problem
from vrmf.solvers import SOLVERS, VR
from vrmf.sources import as_source
from vrmf.terms import L1, Absent, NonNegative, Simplex, UnitBall

PAGE = Path(__file__).parents[1] / "docs" / "coming_from.md"

X = rows(120, 10)
CENTRED = X - X.mean(axis=0)
K, ALPHA = 4, 0.3

Test = Callable[[], None]
TESTS: dict[tuple[str, str], Test] = {}


def row(part: str, there: str) -> Callable[[Test], Test]:
    """Register the test of a row: the heading above it, and its first cell."""

    def register(test: Test) -> Test:
        assert (part, there) not in TESTS
        TESTS[part, there] = test
        return test

    return register


def rows_of_page() -> list[tuple[str, str]]:
    """Return heading and first cell of each row of the tables."""
    found, part = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            part = line.strip("# ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] != "there" and set(cells[0]) != {"-"}:
            found.append((part, cells[0]))
    return found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", rows_of_page(), ids=lambda case: f"{case[0]}: {case[1]}")
def test_row(case: tuple[str, str]) -> None:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        TESTS[case]()


def test_every_test_has_its_row() -> None:
    assert set(TESTS) == set(rows_of_page())


def test_names_of_the_page_exist() -> None:
    """Parameters in the second column are parameters of some estimator of ours."""
    known = {name for kind in vrmf.estimators.ESTIMATORS.values() for name in kind().get_params()}
    known |= {"batch_size", "num_terms", "output_dimension", "algorithm"}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and "---" not in line:
            named = re.findall(r"\b([a-z_]+)=", line.strip("|").split("|")[1])
            assert set(named) <= known, line


def learned(alpha: float = ALPHA, data: Any = CENTRED, **options: Any) -> Any:
    return vrmf.DictionaryLearning(K, alpha=alpha, random_state=0, **options).fit(data)


def objective_of_lasso(data: Any, H: Any, D: Any, alpha: float = ALPHA) -> float:
    return float((0.5 * np.sum((data - H @ D) ** 2) + alpha * np.abs(H).sum()) / len(data))


def objective_of(formulation: Any, data: Any, D: Any) -> float:
    problem = Problem(formulation, as_source(data))
    return problem.measure(problem.stats(D, Coder(tol=1e-9)), D).objective


# scikit-learn -----------------------------------------------------------------------------------------


@row("scikit-learn", "`alpha=a`")
def same_weight() -> None:
    model = learned()
    H = sk.sparse_encode(CENTRED, model.components_, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000)
    assert model.objective_ == pytest.approx(objective_of_lasso(CENTRED, H, model.components_), rel=1e-4)
    theirs = sk.DictionaryLearning(
        K,
        alpha=ALPHA,
        fit_algorithm="cd",
        max_iter=500,
        dict_init=model.components_,
        code_init=model.transform(CENTRED),
        random_state=0,
    )
    codes = theirs.fit_transform(CENTRED)
    assert codes.shape == (len(X), K) and np.all(np.linalg.norm(theirs.components_, axis=1) <= 1 + 1e-9)
    H = sk.sparse_encode(CENTRED, theirs.components_, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000)
    reached = objective_of_lasso(CENTRED, H, theirs.components_)
    assert reached == pytest.approx(model.objective_, rel=1e-4)  # a minimum of ours is one of theirs
    assert sk.DictionaryLearning().alpha == 1


@row("scikit-learn", "`dict_init=D`")
def start() -> None:
    D = np.linalg.qr(np.random.default_rng(0).standard_normal((10, K)))[0].T
    first = next(vrmf.DictionaryLearning(K, alpha=ALPHA, init=D).iterate(CENTRED))
    np.testing.assert_allclose(first.D, D, atol=1e-12)
    theirs = [
        sk.DictionaryLearning(K, alpha=ALPHA, fit_algorithm="cd", max_iter=2, random_state=0, **given)
        for given in ({}, {"dict_init": D})
    ]
    one, other = (model.fit(CENTRED).components_ for model in theirs)
    np.testing.assert_array_equal(one, other)  # without code_init it is not used


@row("scikit-learn", '`transform_algorithm="lasso_cd"`')
def codes() -> None:
    model = learned()
    theirs = sk.SparseCoder(
        model.components_, transform_algorithm="lasso_cd", transform_alpha=ALPHA, transform_max_iter=10_000
    )
    np.testing.assert_allclose(model.transform(CENTRED), theirs.transform(CENTRED), atol=2e-3)
    assert sk.DictionaryLearning().transform_algorithm == "omp"


@row("scikit-learn", "`positive_code=True`")
def positive_codes() -> None:
    model = vrmf.MatrixFactorization(
        K, code=L1(ALPHA) + NonNegative(), dictionary=UnitBall() + NonNegative(), random_state=0
    ).fit(X)
    H = sk.sparse_encode(
        X, model.components_, algorithm="lasso_cd", alpha=ALPHA, positive=True, max_iter=10_000
    )
    np.testing.assert_allclose(model.transform(X), H, atol=2e-3)
    assert np.all(model.components_ >= 0)


@row("scikit-learn", "`batch_size=b`")
def batches() -> None:
    model = learned(solver=VR(batch_size=30), max_iter=2, tol=0)
    other = learned(solver=VR(batch_size=60), max_iter=2, tol=0)
    assert model.n_steps_ == 2 * other.n_steps_


@row("scikit-learn", "`max_iter`, `tol`, `max_no_improvement`")
def ends() -> None:
    model = learned()
    assert model.relative_stationarity_ <= model.tol and model.n_iter_ < model.max_iter
    theirs = sk.MiniBatchDictionaryLearning(K, alpha=ALPHA, fit_algorithm="cd", random_state=0).fit(CENTRED)
    H = sk.sparse_encode(CENTRED, theirs.components_, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000)
    assert model.objective_ <= 1.001 * objective_of_lasso(CENTRED, H, theirs.components_)


@row("scikit-learn", "`partial_fit(batch)`")
def streams() -> None:
    ours, theirs = vrmf.DictionaryLearning(K, alpha=ALPHA), sk.MiniBatchDictionaryLearning(K, alpha=ALPHA)
    for batch in (CENTRED[:60], CENTRED[60:]):
        ours.partial_fit(batch)
        theirs.partial_fit(batch)
    assert ours.components_.shape == theirs.components_.shape and ours.n_samples_seen_ == len(X)
    H = sk.sparse_encode(CENTRED, theirs.components_, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000)
    assert ours.objective(CENTRED) < 1.05 * objective_of_lasso(CENTRED, H, theirs.components_)


@row("scikit-learn", "`error_` of `DictionaryLearning`")
def course() -> None:
    model = learned()
    theirs = sk.DictionaryLearning(
        K,
        alpha=ALPHA,
        fit_algorithm="cd",
        dict_init=model.components_,
        code_init=model.transform(CENTRED),
        random_state=0,
    ).fit(CENTRED)
    assert theirs.error_[-1] / len(X) == pytest.approx(model.objective_, rel=1e-4)
    assert np.nanmin(model.history_["objective"]) == pytest.approx(model.objective_, rel=1e-3)


@row("scikit-learn", "`NMF(k).fit(X)`")
def products() -> None:
    ours = vrmf.NMF(K, random_state=0).fit(X)
    theirs = sk.NMF(K, init="custom", max_iter=5000, tol=1e-8)
    W = theirs.fit_transform(X, W=ours.transform(X) + 1e-6, H=ours.components_ + 1e-6)
    np.testing.assert_allclose(W @ theirs.components_, ours.decompose(X)[0], atol=0.02 * X.max())
    assert theirs.reconstruction_err_ / np.linalg.norm(X) == pytest.approx(
        ours.reconstruction_error_, rel=1e-2
    )


@row("scikit-learn", "`components_` of any scale")
def scale() -> None:
    theirs = sk.NMF(K, max_iter=2000, tol=1e-8, random_state=0)
    W = theirs.fit_transform(X)
    sums = theirs.components_.sum(axis=1)
    np.testing.assert_allclose(vrmf.NMF(K, alpha=0, random_state=0).fit(X).components_.sum(axis=1), 1)
    D = theirs.components_ / sums[:, None]
    H = Coder(tol=1e-9).encode(X, Atoms(D), NonNegative(), Absent()).H
    np.testing.assert_allclose(H @ D, W @ theirs.components_, atol=1e-2 * X.max())


@row("scikit-learn", '`init="nndsvd"`')
def spectral_start() -> None:
    first = next(vrmf.NMF(K, init="nndsvd", random_state=0).iterate(X)).D
    theirs = sk.NMF(K, init="nndsvd", max_iter=1, tol=1e9, random_state=0).fit(X).components_
    assert np.all(first >= 0)
    # After the one step that it takes at least, the leading atoms are still near to the start.
    assert np.all(np.diag(cosines(first, theirs))[:3] > 0.95)


@row("scikit-learn", "`alpha_W=a, l1_ratio=1`")
def sparse_codes_of_nmf() -> None:
    model = vrmf.MatrixFactorization(
        K, code=L1(0.05) + NonNegative(), dictionary=Simplex(), random_state=0
    ).fit(X)
    H = sk.sparse_encode(
        X, model.components_, algorithm="lasso_cd", alpha=0.05, positive=True, max_iter=50_000
    )
    assert model.objective_ == pytest.approx(objective_of_lasso(X, H, model.components_, 0.05), rel=1e-3)
    strong = vrmf.NMF(K, alpha=10.0, random_state=0).fit(X)
    assert np.linalg.norm(strong.transform(X)) < 0.9 * np.linalg.norm(model.transform(X))


@row("scikit-learn", "`beta_loss`")
def losses() -> None:
    assert "beta_loss" in sk.NMF().get_params() and "beta_loss" not in vrmf.NMF().get_params()


@row("scikit-learn", "`reconstruction_err_`")
def errors() -> None:
    ours = vrmf.NMF(K, random_state=0).fit(X)
    direct = np.linalg.norm(X - ours.transform(X) @ ours.components_)
    assert ours.reconstruction_error_ == pytest.approx(direct / np.linalg.norm(X), rel=1e-3)


# SPAMS ------------------------------------------------------------------------------------------------


def spams() -> Any:
    return pytest.importorskip("spams")


COLUMNS = np.asfortranarray(CENTRED.T)


@row("SPAMS", "`X`, `D` with samples and atoms in columns")
def orientation() -> None:
    model = vrmf.DictionaryLearning(K, alpha=ALPHA, random_state=0)
    np.testing.assert_allclose(model.fit(COLUMNS.T).components_, learned().components_, atol=1e-9)
    assert model.components_.shape == (K, COLUMNS.shape[0])


@row("SPAMS", "`trainDL(X, K=k, lambda1=a, mode=2)`")
def dictionaries() -> None:
    ours, library = learned(), spams()
    D = library.trainDL(
        COLUMNS,
        D=np.asfortranarray(ours.components_.T),
        lambda1=ALPHA,
        mode=2,
        iter=300,
        numThreads=1,
        verbose=False,
    )
    assert np.all(np.linalg.norm(D, axis=0) <= 1 + 1e-9)
    found = vrmf.DictionaryLearning(K, alpha=ALPHA, init=D.T, max_iter=1, tol=0, random_state=0)
    np.testing.assert_allclose(next(found.iterate(CENTRED)).D, D.T, atol=1e-9)
    H = library.lasso(COLUMNS, D=np.asfortranarray(D), lambda1=ALPHA, mode=2, numThreads=1).toarray().T
    assert objective_of_lasso(CENTRED, H, D.T) == pytest.approx(ours.objective_, rel=0.01)


@row("SPAMS", "`lambda2=r`")
def ridges() -> None:
    model = learned(ridge=0.5)
    D = np.asfortranarray(model.components_.T)
    H = spams().lasso(COLUMNS, D=D, lambda1=ALPHA, lambda2=0.5, mode=2, numThreads=1).toarray().T
    np.testing.assert_allclose(model.transform(CENTRED), H, atol=1e-4)


@row("SPAMS", "`trainDL(X, D=D)`")
def start_of_spams() -> None:
    start()


@row("SPAMS", "`posAlpha=True`")
def positive_codes_of_spams() -> None:
    model = vrmf.MatrixFactorization(
        K, code=L1(ALPHA) + NonNegative(), dictionary=UnitBall(), random_state=0
    ).fit(X)
    D, columns = np.asfortranarray(model.components_.T), np.asfortranarray(X.T)
    H = spams().lasso(columns, D=D, lambda1=ALPHA, mode=2, pos=True, numThreads=1).toarray().T
    np.testing.assert_allclose(model.transform(X), H, atol=1e-4)


@row("SPAMS", "`lasso(X, D=D, lambda1=a, mode=2)`")
def codes_of_spams() -> None:
    model = learned()
    D = np.asfortranarray(model.components_.T)
    H = spams().lasso(COLUMNS, D=D, lambda1=ALPHA, mode=2, numThreads=1).toarray().T
    np.testing.assert_allclose(model.transform(CENTRED), H, atol=1e-4)


@row("SPAMS", "`iter=n`, `iter=-s`")
def budgets() -> None:
    assert learned(max_iter=3, tol=0).n_iter_ == 3
    limited = learned(max_time=60.0)
    assert limited.relative_stationarity_ <= limited.tol


@row("SPAMS", "`batchsize=b`, `numThreads=t`")
def threads() -> None:
    np.testing.assert_array_equal(learned(n_jobs=1).components_, learned(n_jobs=2).components_)
    batches()


@row("SPAMS", "`return_model=True`")
def going_on() -> None:
    model = vrmf.DictionaryLearning(K, alpha=ALPHA, random_state=0, max_iter=2, tol=0, warm_start=True)
    first = model.fit(CENTRED).objective_
    assert model.fit(CENTRED).objective_ <= first
    assert {"checkpoint", "warm_start"} <= set(model.get_params()) and hasattr(model, "partial_fit")


@row("SPAMS", "`nmf(X, K=k)`")
def nmf_of_spams() -> None:
    U, _ = spams().nmf(np.asfortranarray(X.T), return_lasso=True, K=K, iter=500, numThreads=1)
    ours = vrmf.NMF(K, random_state=0).fit(X)
    theirs = vrmf.NMF(K, init=(U / U.sum(axis=0)).T, alpha=0, max_iter=1, tol=0, random_state=0).fit(X)
    assert ours.reconstruction_error_ <= 1.01 * theirs.reconstruction_error_


# hyperspy ---------------------------------------------------------------------------------------------


@row("hyperspy", '`s.decomposition(algorithm="ORPCA", output_dimension=k)`')
def signals() -> None:
    api = pytest.importorskip("hyperspy.api")
    signal = api.signals.Signal1D(corrupted(X))
    model = vrmf.RobustPCA(3, alpha=0.5, outlier_alpha=0.3, random_state=0)
    signal.decomposition(algorithm=model, output_dimension=3, print_info=False)
    factors = signal.get_decomposition_factors().data
    assert factors.shape == (3, 10)


@row("hyperspy", "`ORPCA(k, lambda1=a, lambda2=b)`")
def robust_pca() -> None:
    library = pytest.importorskip("hyperspy.learn._rpca")
    data, a, b = corrupted(X, 0.05), 0.1, 0.3
    ours = vrmf.RobustPCA(3, alpha=a, outlier_alpha=b, random_state=0).fit(data)
    start = np.ascontiguousarray(ours.components_.T)
    theirs = library.ORPCA(3, lambda1=a, lambda2=b, method="CF", init=start, random_state=0)
    for _ in range(20):
        theirs.partial_fit(data)
    other = next(vrmf.RobustPCA(3, alpha=a, outlier_alpha=b, init=theirs.components_).iterate(data)).D
    reached = objective_of(ours.formulation_, data, other)
    assert ours.objective_ <= reached <= 1.05 * ours.objective_
    assert vrmf.RobustPCA().n_components is None and vrmf.RobustPCA().alpha == "auto"


@row("hyperspy", "`ORNMF(k, lambda1=b)`")
def robust_nmf() -> None:
    library = pytest.importorskip("hyperspy.learn._ornmf")
    data = corrupted(X, 0.05)
    ours = vrmf.RobustNMF(3, outlier_alpha=0.5, random_state=0).fit(data)
    theirs = library.ORNMF(3, lambda1=0.5, method="RobustPGD", random_state=0)
    for _ in range(3):
        theirs.partial_fit(data)
    D = np.maximum(np.asarray(theirs.components_), 0)
    other = vrmf.RobustNMF(3, outlier_alpha=0.5, init=D, max_iter=1, tol=0, random_state=0).fit(data)
    assert D.shape == ours.components_.shape and ours.objective_ <= 1.01 * other.objective_


@row("hyperspy", '`method="CF"`, `"SGD"`')
def methods() -> None:
    found = {}
    for solver in ("smm", "sgd", "vr"):
        model = vrmf.RobustPCA(3, alpha=0.5, outlier_alpha=0.3, solver=solver, max_iter=10, tol=0).fit(X)
        assert isinstance(model.solver_, SOLVERS[solver])
        found[solver] = model.objective_
    assert found["vr"] == min(found.values())


@row("hyperspy", "`Xhat, Ehat` of `orpca`")
def parts() -> None:
    data = corrupted(X, 0.05)
    low_rank, outliers = vrmf.RobustPCA(random_state=0).fit(data).decompose(data)
    assert low_rank.shape == outliers.shape == data.shape
    assert np.linalg.norm(low_rank + outliers - data) < 0.3 * np.linalg.norm(data)


# gensim -----------------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(0).poisson(3 * X)


@row("gensim", "a corpus")
def corpora() -> None:
    utilities = pytest.importorskip("gensim.matutils")
    corpus = list(utilities.Dense2Corpus(COUNTS, documents_columns=False))
    ours = vrmf.NMF(3, random_state=0).fit(utilities.corpus2csc(corpus, num_terms=10).T)
    np.testing.assert_allclose(ours.components_, vrmf.NMF(3, random_state=0).fit(COUNTS).components_)


def topics() -> Any:
    library, utilities = pytest.importorskip("gensim.models.nmf"), pytest.importorskip("gensim.matutils")
    corpus = list(utilities.Dense2Corpus(COUNTS, documents_columns=False))
    names = {i: f"term {i}" for i in range(10)}
    return corpus, library.Nmf(corpus, num_topics=3, id2word=names, passes=20, chunksize=60, random_state=0)


@row("gensim", "`Nmf(num_topics=k, passes=p, chunksize=c)`")
def topic_model() -> None:
    _, theirs = topics()
    ours = vrmf.NMF(3, max_iter=20, solver=VR(batch_size=60), random_state=0).fit(COUNTS)
    D = np.asarray(theirs.get_topics(), dtype=float)
    other = vrmf.NMF(3, init=D, alpha=0, max_iter=1, tol=0, random_state=0).fit(COUNTS)
    assert ours.reconstruction_error_ <= 1.01 * other.reconstruction_error_ and ours.n_iter_ <= 20


@row("gensim", "`get_topics()`")
def topic_sums() -> None:
    _, theirs = topics()
    ours = vrmf.NMF(3, random_state=0).fit(COUNTS)
    np.testing.assert_allclose(theirs.get_topics().sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(ours.components_.sum(axis=1), 1)
    assert theirs.get_topics().shape == ours.components_.shape


@row("gensim", "`model[document]`")
def documents() -> None:
    corpus, theirs = topics()
    assert sum(weight for _, weight in theirs.get_document_topics(corpus[0], 0.0)) == pytest.approx(1)
    codes = vrmf.NMF(3, random_state=0).fit(COUNTS).transform(COUNTS)
    assert np.mean(codes.sum(axis=1)) == pytest.approx(np.mean(COUNTS.sum(axis=1)), rel=0.1)


@row("gensim", "`update(corpus)`")
def updates() -> None:
    corpus, theirs = topics()
    theirs.update(corpus)
    model = vrmf.NMF(3, random_state=0).partial_fit(COUNTS).partial_fit(COUNTS)
    assert model.n_samples_seen_ == 2 * len(COUNTS)


@row("gensim", "`show_topics()`")
def strongest_terms() -> None:
    from vrmf.cli import main

    assert any(option.name == "top" for option in main.commands["export"].params)


# Principal component pursuit --------------------------------------------------------------------------


def pcp(X: Any, steps: int = 200) -> tuple[Any, Any]:
    """Principal component pursuit by an inexact augmented Lagrangian, as most codes have it."""
    size = np.linalg.norm(X, 2)
    weight, mu = 1 / np.sqrt(max(X.shape)), 1.25 / size
    Y = X / max(size, np.abs(X).max() / weight)
    S = np.zeros_like(X)
    for _ in range(steps):
        U, s, V = np.linalg.svd(X - S + Y / mu, full_matrices=False)
        L = (U * np.maximum(s - 1 / mu, 0)) @ V
        E = X - L + Y / mu
        S = np.sign(E) * np.maximum(np.abs(E) - weight / mu, 0)
        Y = Y + mu * (X - L - S)
        mu = min(1.5 * mu, 1e7 / size)
    return L, S


def exact_data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    low_rank = rng.standard_normal((100, 4)) @ rng.standard_normal((4, 60))
    mask = rng.random(low_rank.shape) < 0.05
    return low_rank, mask, low_rank + np.where(mask, 10 * rng.standard_normal(low_rank.shape), 0)


@row("Principal component pursuit", "`L, S = pcp(X)`")
def pursuit() -> None:
    _, _, data = exact_data()
    for ours, theirs in zip(
        vrmf.RobustPCA(random_state=0).fit(data).decompose(data), pcp(data), strict=True
    ):
        assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


@row("Principal component pursuit", "`lmbda=1/√max(n, d)`")
def ratio() -> None:
    _, _, data = exact_data()
    first: Any = next(vrmf.RobustPCA(random_state=0).iterate(data)).stage.formulation
    assert first.code.weight / first.outliers.weight == pytest.approx(np.sqrt(max(data.shape)))
    given = vrmf.RobustPCA(8, alpha=2.0, outlier_alpha=0.4, random_state=0).fit(data)
    assert given.alpha_ == 2.0 and given.outlier_alpha_ == 0.4


@row("Principal component pursuit", "`np.linalg.matrix_rank(L)`")
def ranks() -> None:
    low_rank, _, data = exact_data()
    assert vrmf.RobustPCA(random_state=0).fit(data).rank_ == np.linalg.matrix_rank(low_rank)


@row("Principal component pursuit", "`np.abs(S) > threshold`")
def masks() -> None:
    _, mask, data = exact_data()
    model = vrmf.RobustPCA(random_state=0).fit(data)
    assert np.mean(model.outlier_mask(data) == mask) >= 0.998


@row("Principal component pursuit", "all rows again for a new one")
def new_rows() -> None:
    low_rank, _, data = exact_data()
    model = vrmf.RobustPCA(random_state=0).fit(data[:80])
    found, _ = model.decompose(data[80:])
    assert np.linalg.norm(found - low_rank[80:]) <= 1e-4 * np.linalg.norm(low_rank[80:])
