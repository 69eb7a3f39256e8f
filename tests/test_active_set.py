"""Laws of sparse codes by an active set, and of sums over sparse codes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from precisions import Precision, every_precision
from tables import TERMS, generator
from vrmf.arrays import Array
from vrmf.block import Block
from vrmf.code_matrix import DenseCodes, SparseCodes, code_matrix
from vrmf.coding import METHODS, Atoms, Coder
from vrmf.coding._cholesky import delete_row, solve_lower, solve_upper
from vrmf.coding.active_set import MOST_ROUNDS, ActiveSet, active_set_codes
from vrmf.coding.base import Task
from vrmf.coding.forms import EntrywiseForm, entrywise_form
from vrmf.coding.splitting import Splitting, split_codes
from vrmf.coding.system import System
from vrmf.formulations import dictionary_learning
from vrmf.problem import Problem
from vrmf.sources import as_source
from vrmf.terms import L1, Absent, AbstractRowTerm, Box, NonNegative, Ridge, Sum
from vrmf.terms.traits import Canonical

CODES: dict[str, AbstractRowTerm] = {
    "l1": L1(0.3),
    "l1, hardly any": L1(1e-4),
    "l1+nonneg": L1(0.2) + NonNegative(),
    "l1+nonpositive": L1(0.2) + Box(-np.inf, 0.0),
    "elastic net": L1(0.3) + Ridge(0.2),
    "nonneg": NonNegative(),
    "nonneg+ridge": NonNegative() + Ridge(0.1),
    "l1+box": L1(0.1) + Box(-0.4, 0.7),
    "box from zero": Box(0.0, 0.5),
}

every_code = pytest.mark.parametrize("name", CODES)


def unit_atoms(rng: np.random.Generator, k: int, d: int) -> Array:
    D = rng.normal(size=(k, d))
    return D / np.linalg.norm(D, axis=1)[:, None]


def duplicates(D: Array) -> Array:
    return np.concatenate([D[: len(D) // 2]] * 2)


def opposites(D: Array) -> Array:
    return np.concatenate([D[: len(D) // 2], -D[: len(D) // 2]])


def nearly_parallel(D: Array) -> Array:
    return np.concatenate([D[: len(D) // 2], D[: len(D) // 2] + 1e-6 * D[len(D) // 2 :]])


def some_zero(D: Array) -> Array:
    return D * (np.arange(len(D)) % 3 > 0)[:, None]


def same(D: Array) -> Array:
    return D


every_change = pytest.mark.parametrize(
    "change", [same, duplicates, opposites, nearly_parallel, some_zero], ids=lambda f: f.__name__
)


def solved(term: AbstractRowTerm, X: Array, D: Array, start: Array | None = None, tol: float = 1e-9) -> Any:
    """Return the codes of the active-set kernel alone, without another method after it."""
    known = term.canonical
    assert known is not None
    task = Task(Block(X), Atoms(D), term, Absent(), tol, 500, start)
    system, form = System.of(task.atoms, known.ridge), entrywise_form(known)
    return active_set_codes(X @ D.T, system, form, tol * task.scale, task.scale, MOST_ROUNDS, start)


def violation(term: AbstractRowTerm, X: Array, D: Array, H: Array) -> Array:
    """How far codes are from optimal, from the definition: p − prox(p − gradient) at a small step."""
    X, D, H = (Z.astype(np.float64) for Z in (X, D, H))
    step = 1e-3
    gradient = (H @ D - X) @ D.T
    scale = np.linalg.norm(X, axis=1) * np.linalg.norm(D, 2)
    return (
        np.linalg.norm(H - term.prox(H - step * gradient, step), axis=1) / step / np.where(scale, scale, 1)
    )


# ------------------------------------------------------------------ the answer


@every_change
@every_code
@pytest.mark.parametrize(("k", "d"), [(12, 30), (40, 16), (130, 24)])
def test_codes_are_optimal(name: str, k: int, d: int, change: Any) -> None:
    rng, term = generator(f"{name} {k} {change.__name__}"), CODES[name]
    D, X = change(unit_atoms(rng, k, d)), rng.normal(size=(30, d))
    codes = solved(term, X, D)
    # With hardly any penalty the problem is nearly a linear programme, which needs many rounds.
    assert np.mean(codes.finished) >= (0.5 if "hardly" in name else 0.9), "most rows need nothing else"
    done = codes.finished
    assert np.all(violation(term, X, D, codes.H)[done] <= 2e-9)
    assert np.all(codes.error[done] <= 1e-9 * 1.01)


@every_precision
@every_code
def test_warm_codes_are_optimal_from_any_start(name: str, dtype: Precision) -> None:
    rng, term, tol = generator(name), CODES[name], 1e-9 if dtype == np.float64 else 1e-4
    D, X = unit_atoms(rng, 40, 20).astype(dtype), rng.normal(size=(30, 20)).astype(dtype)
    for start in (np.zeros((30, 40)), rng.normal(size=(30, 40)), 1e3 * np.ones((30, 40))):
        codes = solved(term, X, D, start.astype(dtype), tol)
        done = codes.finished
        assert codes.H.dtype == dtype and np.mean(done) > 0.9
        assert np.all(violation(term, X, D, codes.H)[done] <= 3 * tol)


@every_code
def test_from_the_answer_one_round_confirms_it(name: str) -> None:
    rng, term = generator(name), CODES[name]
    D, X = unit_atoms(rng, 40, 20), rng.normal(size=(30, 20))
    first = solved(term, X, D)
    again = solved(term, X, D, first.H)
    assert np.mean(again.iterations == 1) > 0.9
    np.testing.assert_allclose(again.H, first.H, atol=1e-7)


@every_code
def test_codes_of_both_methods_agree(name: str) -> None:
    rng, term = generator(name), CODES[name]
    D, X = unit_atoms(rng, 20, 40), rng.normal(size=(50, 40))
    known = term.canonical
    assert known is not None
    system, form, allowed = System.of(Atoms(D), known.ridge), entrywise_form(known), np.full(50, 1e-11)
    one = active_set_codes(X @ D.T, system, form, allowed, np.ones(50), MOST_ROUNDS)
    other = split_codes(X @ D.T, system, form, allowed, np.ones(50), 1000)
    assert np.all(one.finished) and np.all(other.finished)
    np.testing.assert_allclose(one.H, other.H, atol=1e-9)


def objective(A: Array, c: Array, form: EntrywiseForm, h: Array) -> float:
    return float(0.5 * h @ A @ h - c @ h + form.slope * np.sum(np.abs(h)))


@every_change
@every_code
def test_no_round_raises_the_objective(name: str, change: Any) -> None:
    rng, known = generator(f"{name} {change.__name__}"), CODES[name].canonical
    assert known is not None
    D = change(unit_atoms(rng, 60, 20))
    system, form = System.of(Atoms(D), known.ridge), entrywise_form(known)
    C = rng.normal(size=(10, 20)) @ D.T
    values = [
        [
            objective(system.A, c, form, h)
            for c, h in zip(
                C,
                active_set_codes(C, system, form, np.zeros(10), np.ones(10), rounds).H,
                strict=True,
            )
        ]
        for rounds in range(1, 12)
    ]
    for before, after in itertools.pairwise(values):
        assert np.all(np.array(after) <= np.array(before) + 1e-9 * (1 + np.abs(before)))


def test_rounds_are_bounded_and_counted() -> None:
    rng = generator("rounds")
    D, X = unit_atoms(rng, 60, 20), rng.normal(size=(40, 20))
    system, form = System.of(Atoms(D), 0.0), EntrywiseForm(0.0, 0.01)
    for most in (1, 2, 3):
        codes = active_set_codes(X @ D.T, system, form, np.full(40, 1e-10), np.ones(40), most)
        assert np.all(codes.iterations <= most) and not np.all(codes.finished)
    few = active_set_codes(X @ D.T, system, form, np.full(40, 1e-10), np.ones(40), MOST_ROUNDS, most_free=3)
    assert not np.any(few.finished) and np.all(few.iterations <= 10), "it fails as soon as it is clear"


@pytest.mark.parametrize("row", [np.zeros(8), np.full(8, 1e-300), np.full(8, 1e120)])
def test_rows_of_any_size_have_finished_codes(row: Array) -> None:
    D = unit_atoms(generator("sizes"), 30, 8)
    codes = Coder(tol=1e-9).encode(row[None], Atoms(D), L1(0.1), Absent())
    assert np.all(codes.finished) and np.all(np.isfinite(codes.H))


def test_numbers_that_are_not_finite_end() -> None:
    D, X = unit_atoms(generator("nan"), 30, 8), np.full((2, 8), np.nan)
    assert not np.any(solved(L1(0.1), X, D).finished)


# ------------------------------------------------------------------ when it is taken


def method_of(X: Array, D: Array, code: AbstractRowTerm, start: Array | None = None) -> Any:
    task = Task(Block(X), Atoms(D), code, Absent(), 1e-6, 500, start)
    return type(next(method for method in METHODS if method.applies_to(task)))


def test_sparse_codes_go_to_the_active_set_and_dense_ones_to_splitting() -> None:
    rng = generator("choice")
    wide, tall = unit_atoms(rng, 60, 20), unit_atoms(rng, 40, 90)
    X, Y = rng.normal(size=(100, 20)), rng.normal(size=(100, 90))
    assert method_of(X, wide, L1(0.5)) is ActiveSet
    assert method_of(Y, tall, L1(1e-3)) is Splitting
    assert method_of(Y, tall, L1(2.0)) is ActiveSet
    assert method_of(Y, tall, L1(1e-3), np.zeros((100, 40))) is ActiveSet
    assert method_of(Y, tall, L1(1e-3), np.ones((100, 40))) is Splitting
    assert method_of(X, wide, Box(-1.0, 1.0)) is Splitting, "nothing makes entries vanish"
    assert method_of(X, wide, L1(0.5) + Box(0.1, 1.0)) is Splitting
    assert method_of(X[:0], wide, L1(0.5)) is Splitting


@dataclass(frozen=True)
class ElasticNet(AbstractRowTerm):
    """A user's own term in one class, which declares its canonical form."""

    slope: float
    ridge: float

    @property
    def canonical(self) -> Canonical:  # type: ignore[override]
        return Canonical(slope=self.slope, ridge=self.ridge)

    def row_values(self, Z: Array) -> Array:
        return np.sum(self.slope * np.abs(Z) + 0.5 * self.ridge * Z**2, axis=1)

    def prox(self, Z: Array, step: float) -> Array:
        return np.sign(Z) * np.maximum(np.abs(Z) - step * self.slope, 0) / (1 + step * self.ridge)


def test_a_term_of_the_user_gets_the_fast_methods() -> None:
    rng = generator("own")
    D, X = unit_atoms(rng, 60, 20), rng.normal(size=(100, 20))
    own, ours = ElasticNet(0.3, 0.1), L1(0.3) + Ridge(0.1)
    assert method_of(X, D, own) is ActiveSet
    mine, yours = (Coder(tol=1e-9).encode(X, Atoms(D), term, Absent()) for term in (own, ours))
    np.testing.assert_array_equal(mine.H, yours.H)


@pytest.mark.parametrize("wrong", [{"slope": -1.0}, {"ridge": np.nan}, {"low": 2.0, "high": 1.0}])
def test_a_canonical_form_that_is_not_convex_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no convex term. Use slope ≥ 0"):
        Canonical(**wrong)


@pytest.mark.parametrize("name", TERMS)
def test_the_canonical_form_is_the_term(name: str) -> None:
    term, width = TERMS[name]
    known = term.canonical
    if known is None:
        return
    rng = generator(name)
    parts: list[AbstractRowTerm] = [L1(known.slope), Ridge(known.ridge), Box(known.low, known.high)]
    for Z in (rng.normal(size=(20, width)), 0.1 * rng.normal(size=(20, width))):
        inside = term.prox(Z, 0.5)
        value = sum(part.value(inside) for part in parts)
        value += known.groups.value(inside) if isinstance(known.groups, AbstractRowTerm) else 0.0
        assert term.value(inside) == pytest.approx(value, rel=1e-12)
        assert not known.in_ball or np.all(np.linalg.norm(inside, axis=1) <= 1 + 1e-12)
        if known.is_entrywise:
            np.testing.assert_allclose(inside, Sum(tuple(parts)).prox(Z, 0.5), atol=1e-12)
        far = 10 * Z
        if known.is_entrywise and np.isfinite(term.value(far)):
            assert known.low <= np.min(far) and np.max(far) <= known.high


# ------------------------------------------------------------------ factors


@every_precision
def test_deleting_a_row_updates_the_factor_and_the_solution(dtype: Precision) -> None:
    rng = generator("delete")
    for size in (1, 2, 5, 12):
        for deleted in range(size):
            M = rng.normal(size=(size, size + 3))
            A, b = (M @ M.T).astype(dtype), rng.normal(size=size).astype(dtype)
            L = np.zeros((size, size + 2), dtype)
            L[:, :size] = np.linalg.cholesky(A)
            np.fill_diagonal(L[:, :size], 1 / np.diag(L[:, :size]))
            y, x = b.copy(), np.empty(size, dtype)
            solve_lower(L, y, size)
            solve_upper(L, y, x, size)
            tolerance = 1e3 * float(np.finfo(dtype).eps) * float(np.linalg.cond(A))
            np.testing.assert_allclose(A @ x, b, atol=tolerance)
            delete_row(L, y, deleted, size)
            left = [i for i in range(size) if i != deleted]
            solve_upper(L, y, x, size - 1)
            np.testing.assert_allclose(A[np.ix_(left, left)] @ x[:-1], b[left], atol=tolerance)


# ------------------------------------------------------------------ sums


@every_precision
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_products_of_sparse_codes_are_products(share: float, dtype: Precision) -> None:
    rng = generator("products")
    H = (rng.normal(size=(30, 40)) * (rng.random((30, 40)) < share)).astype(dtype)
    D, E = rng.normal(size=(40, 9)).astype(dtype), rng.normal(size=(30, 9)).astype(dtype)
    tolerance = 100 * float(np.finfo(dtype).eps)
    for codes in (SparseCodes(H, int(np.count_nonzero(H))), DenseCodes(H), code_matrix(H)):
        np.testing.assert_allclose(codes.times(D), H @ D, atol=tolerance)
        np.testing.assert_allclose(codes.transposed_times(E), H.T @ E, atol=tolerance)
        np.testing.assert_allclose(codes.gram, H.T @ H, atol=tolerance)
        np.testing.assert_array_equal(codes.used, np.count_nonzero(H, axis=0))
        assert codes.times(D).dtype == codes.gram.dtype == codes.transposed_times(E).dtype == dtype


def test_the_change_of_the_slope_is_that_of_pairs_in_dense_and_sparse_blocks() -> None:
    """Blocks of both kinds add up: some rows have many nonzeros, others few."""
    rng = generator("mixed")
    D = unit_atoms(rng, 60, 20)
    X = rng.normal(size=(2000, 20)) * np.where(np.arange(2000) < 1000, 1.0, 0.02)[:, None]
    problem, coder = Problem(dictionary_learning(0.05), as_source(X)), Coder(tol=1e-10)
    kinds = {
        type(code_matrix(problem.formulation.encode(X[i : i + 500], Atoms(D), coder).H)) for i in (0, 1500)
    }
    assert kinds == {DenseCodes, SparseCodes}
    moved = D + 0.01 * rng.normal(size=D.shape)
    rows = np.arange(0, 2000, 3)
    change = problem.slope_change(moved, D, coder, rows)
    pair = problem.paired_stats(moved, D, coder, rows)
    np.testing.assert_allclose(change.slope, pair.current.slope - pair.anchor.slope, atol=1e-6)
    np.testing.assert_array_equal(change.used, pair.current.used)
