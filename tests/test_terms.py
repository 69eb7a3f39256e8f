"""Laws of terms: what a value and a prox must satisfy, over every term of the table."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import reference
import tables
import vrmf.terms
from tables import BASIC, INF, TERMS, WIDTH, generator
from vrmf.arrays import Array
from vrmf.terms import (
    L1,
    Absent,
    AbstractRowTerm,
    AbstractSet,
    AbstractTerm,
    Box,
    Free,
    GroupL2,
    LowRankQuadratic,
    MaxColumnNorm,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    Trait,
    UnitBall,
    chain_laplacian,
    grid_laplacian,
)

STEPS = (1e-3, 0.1, 1.0, 30.0, 1e3)

every_term = pytest.mark.parametrize("name", TERMS)
every_row_term = pytest.mark.parametrize(
    "name", [name for name, (term, _) in TERMS.items() if isinstance(term, AbstractRowTerm)]
)


def points(name: str, term: AbstractTerm, width: int) -> Iterator[Array]:
    """Yield single rows (matrices, for terms that couple rows): random ones and special ones."""
    rng, rows = generator(name), 1 if isinstance(term, AbstractRowTerm) else 3
    for scale in (0.1, 1.0, 1.0, 10.0):
        yield scale * rng.normal(size=(rows, width))
    yield np.abs(rng.normal(size=(rows, width)))
    yield np.where(rng.random((rows, width)) < 0.5, rng.normal(size=(rows, width)), 0.0)
    yield np.zeros((rows, width))
    yield np.full((rows, width), 0.8)


def size(*arrays: Array) -> float:
    """Return the largest norm, at least 1: the unit of rounding errors."""
    return max(1.0, *(float(np.linalg.norm(A)) for A in arrays))


# ------------------------------------------------------------------ laws of the prox


def assert_prox(term: AbstractTerm, X: Array, step: float, rng: np.random.Generator) -> None:
    """Assert that P = prox(X) is feasible and (X − P)/step a subgradient of f at P.

    f(Z) ≥ f(P) + ⟨X − P, Z − P⟩/step for competitors Z near P and toward X, which the prox of a
    tiny step makes feasible. Far ones would miss a wrong projection, and so would several rows.
    """
    P = term.prox(X, step)
    value, unit = term.value(P), size(X, P)
    assert np.isfinite(value), f"the prox at step {step} is not feasible"
    near = [P + reach * rng.normal(size=P.shape) for reach in (1e-4, 1e-2, 1.0) for _ in range(4)]
    toward = [P + part * (X - P) for part in (-0.1, 1e-4, 1e-2, 0.3, 1.0)]
    for Z, other in zip(*made_feasible(term, near + toward), strict=True):
        assert np.isfinite(other), "a prox is not feasible"
        slope = float(np.sum((X - P) * (Z - P))) / step
        rounding = 1e-13 * (abs(value) + abs(other) + unit * size(X - P) / step)
        slack = 1e-10 * unit * float(np.linalg.norm(Z - P)) / step + rounding
        assert other >= value + slope - slack, f"a better point than the prox at step {step}"


def made_feasible(term: AbstractTerm, points: list[Array]) -> tuple[list[Array], list[float]]:
    """Return the prox of a tiny step at each point, and its value."""
    if isinstance(term, AbstractRowTerm):
        rows = term.prox(np.concatenate(points), 1e-6)
        return [row[None] for row in rows], list(term.row_values(rows))
    moved = [term.prox(point, 1e-6) for point in points]
    return moved, [term.value(Z) for Z in moved]


@pytest.mark.slow
@every_term
def test_prox_is_better_than_points_near_and_toward(name: str) -> None:
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), STEPS):
        assert_prox(term, X, step, generator(name))


@dataclass(frozen=True)
class NormBeforeClip(AbstractRowTerm):
    """A wrong projection onto {z ≥ 0, ‖z‖ ≤ 1}, which divides by the norm before it clips."""

    def row_values(self, Z: Array) -> Array:
        return (NonNegative() + UnitBall()).row_values(Z)

    def prox(self, Z: Array, step: float) -> Array:
        return np.maximum(Z, 0) / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1)


@dataclass(frozen=True)
class WrongOrder(AbstractRowTerm):
    """A wrong prox of L1 + UnitBall: the ball first."""

    def row_values(self, Z: Array) -> Array:
        return (L1(0.3) + UnitBall()).row_values(Z)

    def prox(self, Z: Array, step: float) -> Array:
        return L1(0.3).prox(UnitBall().prox(Z, step), step)


@pytest.mark.parametrize("wrong", [NormBeforeClip(), WrongOrder()], ids=lambda term: repr(term))
def test_the_law_notices_a_wrong_prox(wrong: AbstractRowTerm) -> None:
    X = np.array([[0.8, -2.0, 0.5, -0.1]])
    with pytest.raises(AssertionError, match="a better point"):
        assert_prox(wrong, X, 1.0, generator("wrong"))


@pytest.mark.parametrize(
    "name", [name for name, (term, _) in TERMS.items() if reference.has_conditions(term)]
)
def test_prox_meets_the_optimality_conditions(name: str) -> None:
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), STEPS):
        P = term.prox(X, step)
        # s · dist((x − p)/s, ∂f(p)); p may sit off a kink by what rounding allows
        distance = reference.subdifferential_distance(
            term, P[0], (X[0] - P[0]) / step, slack=1e-11 * size(X)
        )
        assert step * distance <= 1e-10 * size(X), step


def test_every_term_of_the_library_has_optimality_conditions() -> None:
    unknown = {name for name, (term, _) in TERMS.items() if not reference.has_conditions(term)}
    assert unknown == {"max-column-norm"}  # conditions of its own, below


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_max_column_norm_meets_the_optimality_conditions(rows: int, step: float) -> None:
    rng, weight = generator(f"max {rows}"), 0.8
    for scale in (0.1, 1.0, 10.0):
        X = scale * rng.normal(size=(rows, WIDTH)) * rng.gamma(1.0, size=WIDTH)
        P = MaxColumnNorm(weight).prox(X, step)
        distance = reference.max_column_norm_distance(weight, P, (X - P) / step)
        assert step * distance <= 1e-10 * size(X)


@pytest.mark.parametrize("name", [name for name, term in BASIC.items() if isinstance(term, GroupL2)])
@pytest.mark.parametrize("step", [0.01, 0.5, 1.0])
def test_groups_agree_with_a_slow_twin(name: str, step: float) -> None:
    term = BASIC[name]
    assert isinstance(term, GroupL2)
    for X in points(name, term, WIDTH):
        P = dual_gradient_prox(term, X[0], step)
        np.testing.assert_allclose(term.prox(X, step)[0], P, rtol=0, atol=1e-10 * size(X))


def dual_gradient_prox(term: GroupL2, x: Array, step: float) -> Array:
    """Accelerated projected gradient on ½‖x − Σ_g u_g‖² over ‖u_g‖ ≤ step · weight_g, all at once."""
    membership = np.zeros((len(term.groups), len(x)))
    for row, group in zip(membership, term.groups, strict=True):
        row[list(group)] = 1
    radii = step * np.array(term.weights)[:, None]
    overlap = float(np.max(membership.sum(axis=0)))
    U = V = np.zeros_like(membership)
    t = 1.0
    for _ in range(20_000):
        previous, residual = U, x - V.sum(axis=0)
        U = V + membership * residual / overlap
        U = U * np.minimum(1, radii / np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1e-300))
        if np.max(np.abs(U - V)) <= 1e-16 * np.max(np.abs(x)):
            break
        t = 1.0 if np.sum((V - U) * (U - previous)) > 0 else t
        faster = (1 + (1 + 4 * t * t) ** 0.5) / 2
        V, t = U + (t - 1) / faster * (U - previous), faster
    return x - U.sum(axis=0)


@pytest.mark.parametrize("name", [name for name, term in BASIC.items() if isinstance(term, GroupL2)])
@pytest.mark.parametrize("step", [0.3, 1.0, 3.0])
def test_groups_finish_on_every_row_of_many(name: str, step: float) -> None:
    # Block coordinate descent is slow where p_g = 0 and u_g is on the boundary of its ball. A row that
    # is not finished warns, and warnings are errors here.
    X = generator(name).normal(size=(5000, WIDTH))
    assert np.isfinite(BASIC[name].value(BASIC[name].prox(X, step)))


@every_term
def test_prox_is_firmly_nonexpansive(name: str) -> None:
    term, width = TERMS[name]
    for (X, Y), step in itertools.product(itertools.pairwise(points(name, term, width)), (1e-3, 1.0, 1e3)):
        P, Q = term.prox(X, step), term.prox(Y, step)
        assert np.sum((P - Q) ** 2) <= np.sum((P - Q) * (X - Y)) + 1e-10 * size(X, Y) ** 2


@every_term
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prox_keeps_dtype_shape_and_input(name: str, dtype: type) -> None:
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), (1e-3, 1.0, 1e3)):
        Z: Array = X.astype(dtype)
        before = Z.copy()
        Z.setflags(write=False)
        P = term.prox(Z, step)
        assert P.dtype == dtype
        assert P.shape == Z.shape
        assert not np.shares_memory(P, Z)
        np.testing.assert_array_equal(Z, before)
        assert np.isfinite(term.value(P))
        exact = term.prox(before.astype(np.float64), step)
        np.testing.assert_allclose(P, exact, rtol=0, atol=(2e-4 if dtype is np.float32 else 0) * size(X))


@every_term
def test_prox_takes_any_memory_layout(name: str) -> None:
    term, width = TERMS[name]
    X = generator(name).normal(size=(5, width))
    expected = term.prox(X, 0.5)
    padded = np.zeros((10, 2 * width))
    padded[::2, ::2] = X
    for Z in (np.asfortranarray(X), padded[::2, ::2], X[::-1][::-1]):
        np.testing.assert_allclose(term.prox(Z, 0.5), expected, rtol=1e-12, atol=1e-12)


@every_term
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_is_a_python_float(name: str, dtype: type) -> None:
    term, width = TERMS[name]
    value = term.value(np.zeros((2, width), dtype=dtype))
    assert type(value) is float
    assert value >= 0


@every_row_term
def test_rows_are_independent(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, AbstractRowTerm)
    X = np.concatenate(list(points(name, term, width)))
    for step in (1e-3, 1.0, 1e3):
        P = term.prox(X, step)
        for x, p in zip(X, P, strict=True):
            np.testing.assert_allclose(term.prox(x[None], step)[0], p, rtol=0, atol=1e-10 * size(x))
        assert term.prox(X[:0], step).shape == (0, width)


@every_row_term
def test_value_is_the_sum_of_row_values(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, AbstractRowTerm)
    for Z in (generator(name).normal(size=(7, width)), np.zeros((0, width))):
        feasible = term.prox(Z, 0.1)
        values = term.row_values(feasible)
        assert values.shape == (len(Z),)
        assert term.value(feasible) == pytest.approx(sum(values), rel=1e-13, abs=1e-13)
        alone = [term.value(row[None]) for row in feasible]
        np.testing.assert_allclose(values, alone, rtol=1e-12, atol=1e-14)


@every_term
@pytest.mark.parametrize("step", [0.1, 1.0])
def test_prox_agrees_with_a_general_convex_solver(name: str, step: float) -> None:
    term, width = TERMS[name]
    rows = 1 if isinstance(term, AbstractRowTerm) else 3
    for scale in (0.5, 3.0):
        X = scale * generator(f"{name} {scale}").normal(size=(rows, width))
        P = reference.convex_prox(term, X, step)
        np.testing.assert_allclose(term.prox(X, step), P, rtol=0, atol=1e-6)


@every_term
def test_value_agrees_with_a_general_convex_solver(name: str) -> None:
    import cvxpy as cp

    term, width = TERMS[name]
    Z = cp.Variable((3, width))
    value, constraints = reference.to_cvxpy(term, Z)
    for scale in (0.5, 3.0):
        Z.value = term.prox(scale * generator(name).normal(size=(3, width)), 0.1)
        expected = float(np.asarray(value.value)) if isinstance(value, cp.Expression) else value
        assert term.value(Z.value) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert all(np.max(c.violation()) <= 1e-10 for c in constraints)


# ------------------------------------------------------------------ sets


every_set = pytest.mark.parametrize(
    "name", [name for name, (term, _) in TERMS.items() if isinstance(term, AbstractSet)]
)


@every_set
def test_projection_is_idempotent_and_ignores_the_step(name: str) -> None:
    term, width = TERMS[name]
    for X in points(name, term, width):
        P = term.prox(X, 1.0)
        np.testing.assert_allclose(term.prox(P, 1.0), P, rtol=1e-14, atol=1e-14)
        for step in STEPS:
            np.testing.assert_array_equal(term.prox(X, step), P)


@every_set
def test_violation_is_zero_inside_and_positive_outside(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, AbstractSet)
    for X in points(name, term, width):
        P = term.prox(X, 1.0)
        assert term.violation(P)[0] <= 1e-14
        distance = np.linalg.norm(X - P)
        if distance > 1e-8:
            assert term.violation(X)[0] > 0
            assert term.value(X) == np.inf


@pytest.mark.parametrize("dtype, allowed", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_sets_tolerate_errors_of_rounding_only(dtype: type, allowed: float) -> None:
    for excess, value in ((0.5 * allowed, 0.0), (3 * allowed, np.inf)):
        assert Simplex().value(np.array([[1 + excess, 0]], dtype=dtype)) == value
        assert NonNegative().value(np.array([[-excess, 2]], dtype=dtype)) == value
        assert Absent().value(np.array([[excess, 0]], dtype=dtype)) == value
        assert Box(0.0, 1.0).value(np.array([[1 + excess, 0]], dtype=dtype)) == value
        assert UnitBall().value(np.array([[0, -1 - excess]], dtype=dtype)) == value


# ------------------------------------------------------------------ traits


def terms_with(trait: Trait) -> list[str]:
    return [name for name, (term, _) in TERMS.items() if trait in term.traits]


@pytest.mark.parametrize("name", terms_with(Trait.HOMOGENEOUS))
@pytest.mark.parametrize("factor", [1e-70, 1e-3, 7.0, 1e70])
def test_homogeneous_terms_scale(name: str, factor: float) -> None:
    # f(c z) = c f(z), hence prox of step c s at c x is c times the prox of step s at x
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), (0.1, 1.0)):
        P = term.prox(X, step)
        assert term.value(factor * P) == pytest.approx(factor * term.value(P), rel=1e-12)
        scaled = term.prox(factor * X, factor * step) / factor
        np.testing.assert_allclose(scaled, P, rtol=1e-10, atol=1e-13 * size(X))


@pytest.mark.parametrize("name", [*terms_with(Trait.QUADRATIC), "max-column-norm"])
@pytest.mark.parametrize("factor", [1e-70, 1e-3, 7.0, 1e70])
def test_squared_terms_scale(name: str, factor: float) -> None:
    # f(c z) = c² f(z), hence prox at c x is c times the prox at x, for the same step
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), (0.1, 1.0)):
        P = term.prox(X, step)
        rounding = 1e-13 * (factor * size(P)) ** 2
        assert term.value(factor * P) == pytest.approx(factor**2 * term.value(P), rel=1e-9, abs=rounding)
        scaled = term.prox(factor * X, step) / factor
        np.testing.assert_allclose(scaled, P, rtol=1e-10, atol=1e-13 * size(X))


@pytest.mark.parametrize("name", terms_with(Trait.RIDGE))
def test_the_prox_of_a_ridge_is_a_division(name: str) -> None:
    term, width = TERMS[name]
    assert term.canonical is not None
    for X, step in itertools.product(points(name, term, width), (0.1, 1.0)):
        expected = X / (1 + step * term.canonical.ridge)
        np.testing.assert_allclose(term.prox(X, step), expected, rtol=1e-14)


@pytest.mark.parametrize("name", terms_with(Trait.QUADRATIC))
def test_quadratic_terms_obey_the_parallelogram_law(name: str) -> None:
    term, width = TERMS[name]
    A, B = generator(name).normal(size=(2, 3, width))
    both = term.value(A + B) + term.value(A - B)
    assert both == pytest.approx(2 * term.value(A) + 2 * term.value(B), rel=1e-12, abs=1e-13)
    combined = term.prox(2 * A - 3 * B, 0.7)
    linear = 2 * term.prox(A, 0.7) - 3 * term.prox(B, 0.7)
    np.testing.assert_allclose(combined, linear, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", terms_with(Trait.ROTATABLE))
def test_rotatable_terms_ignore_how_rows_are_mixed(name: str) -> None:
    term, width = TERMS[name]
    rng = generator(name)
    Z, rotation = rng.normal(size=(3, width)), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert term.value(rotation @ Z) == pytest.approx(term.value(Z), rel=1e-12, abs=1e-13)
    mixed = rotation @ term.prox(Z, 0.7)
    np.testing.assert_allclose(term.prox(rotation @ Z, 0.7), mixed, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", terms_with(Trait.RADIAL))
def test_radial_terms_see_only_the_norm(name: str) -> None:
    term, width = TERMS[name]
    rng = generator(name)
    rotation = np.linalg.qr(rng.normal(size=(width, width)))[0]
    for X, step in itertools.product(points(name, term, width), (0.1, 1.0)):
        P = term.prox(X, step)
        np.testing.assert_allclose(term.prox(X @ rotation, step), P @ rotation, atol=1e-12 * size(X))
        assert term.value(P @ rotation) == pytest.approx(term.value(P), rel=1e-12, abs=1e-12)
        assert term.value(0.9 * P) <= term.value(P)


@pytest.mark.parametrize("name", terms_with(Trait.ENTRYWISE))
def test_entrywise_terms_act_on_each_entry_alone(name: str) -> None:
    term, width = TERMS[name]
    for X, step in itertools.product(points(name, term, width), (0.1, 1.0)):
        P = term.prox(X, step)
        np.testing.assert_allclose(term.prox(X.T, step).T, P, rtol=1e-14, atol=0)
        assert term.value(P.T) == pytest.approx(term.value(P), rel=1e-12)


@pytest.mark.parametrize("name", terms_with(Trait.INTERVAL))
def test_intervals_are_entrywise_and_ignore_the_step(name: str) -> None:
    term, width = TERMS[name]
    assert Trait.ENTRYWISE in term.traits
    for X in points(name, term, width):
        P = term.prox(X, 1.0)
        assert term.value(P) == 0
        np.testing.assert_array_equal(term.prox(X, 0.01), P)


@pytest.mark.parametrize("name", terms_with(Trait.GROUP_RADIAL))
def test_group_radial_terms_see_only_the_norms_of_groups(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, GroupL2)
    columns = [c for group in term.groups for c in group]
    assert sorted(columns) == list(range(width))
    rotation = np.zeros((width, width))
    for group in term.groups:
        block = generator(name).normal(size=(len(group), len(group)))
        rotation[np.ix_(group, group)] = np.linalg.qr(block)[0]
    for X in points(name, term, width):
        P = term.prox(X, 0.5)
        np.testing.assert_allclose(term.prox(X @ rotation, 0.5), P @ rotation, atol=1e-12 * size(X))


@every_term
def test_smoothness_bounds_the_curvature(name: str) -> None:
    term, width = TERMS[name]
    if not np.isfinite(term.smoothness):
        assert Trait.QUADRATIC not in term.traits, "a quadratic is smooth"
        return
    for Z, V in itertools.product(points(name, term, width), repeat=2):
        bend = term.value(Z + V) + term.value(Z - V) - 2 * term.value(Z)
        assert bend <= term.smoothness * np.sum(V**2) + 1e-10 * size(Z, V) ** 2


# ------------------------------------------------------------------ values as objects


@every_term
def test_terms_are_values(name: str) -> None:
    term, width = TERMS[name]
    X = generator(name).normal(size=(2, width))
    expected = term.prox(X, 0.5)  # fills caches, which must not be in the way
    for twin in (pickle.loads(pickle.dumps(term)), copy.deepcopy(term), copy.copy(term)):
        assert twin == term
        assert hash(twin) == hash(term)
        assert repr(twin) == repr(term)
        np.testing.assert_array_equal(twin.prox(X, 0.5), expected)
    assert type(term).__name__ in repr(term)


@every_term
def test_terms_are_frozen(name: str) -> None:
    term: Any = TERMS[name][0]
    for field in dataclasses.fields(term):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(term, field.name, getattr(term, field.name))


@every_term
def test_replacing_nothing_gives_an_equal_term(name: str) -> None:
    term: Any = TERMS[name][0]
    assert dataclasses.replace(term) == term


def test_different_terms_differ() -> None:
    for one, other in itertools.combinations([*BASIC.values(), *tables.SUMS.values()], 2):
        assert one != other
    assert Quadratic(np.eye(2)) != Quadratic(2 * np.eye(2))
    assert Quadratic(np.eye(2), 2.0) != Quadratic(np.eye(2), 1.0)
    assert Quadratic(np.eye(2)) != Quadratic(scipy.sparse.csr_array(np.eye(2)))
    assert Quadratic(np.eye(2)) != "Quadratic"


WITHOUT_ARRAYS = [  # whose repr is not abbreviated
    name for name, (term, _) in TERMS.items() if "array" not in repr(term) and "sparse" not in repr(term)
]


@pytest.mark.parametrize("name", WITHOUT_ARRAYS)
def test_repr_builds_the_term_again(name: str) -> None:
    term, _ = TERMS[name]
    names = vars(vrmf.terms) | {"inf": INF, "AsymmetricL1": tables.AsymmetricL1}
    assert eval(repr(term), names) == term


def concrete_terms() -> set[type[AbstractTerm]]:
    found, queue = set(), [AbstractTerm]
    while queue:
        cls = queue.pop()
        queue.extend(cls.__subclasses__())
        if cls.__module__.startswith("vrmf.terms") and not inspect.isabstract(cls):
            found.add(cls)
    return found


def test_every_concrete_term_is_in_the_table() -> None:
    assert concrete_terms() <= {type(term) for term, _ in TERMS.values()}


def test_every_concrete_term_is_public_and_has_a_convex_twin() -> None:
    assert {cls.__name__ for cls in concrete_terms()} <= set(vrmf.terms.__all__)
    assert concrete_terms() - {Sum} <= set(reference.CONVEX)


@pytest.mark.parametrize("name", vrmf.terms.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    thing = getattr(vrmf.terms, name)
    assert thing.__doc__, name
    # A dataclass without a docstring is given its signature as one.
    assert not thing.__doc__.startswith(f"{name}(")


@every_term
def test_width_is_any_or_that_of_the_table(name: str) -> None:
    term, width = TERMS[name]
    assert term.width in (None, width)


# ------------------------------------------------------------------ sums


@pytest.mark.parametrize(
    "first, second", [pytest.param(*pair, id="+".join(pair)) for pair in itertools.product(BASIC, BASIC)]
)
def test_every_pair_has_a_right_prox_or_is_refused(first: str, second: str) -> None:
    one, other = BASIC[first], BASIC[second]
    if not (isinstance(one, AbstractRowTerm) and isinstance(other, AbstractRowTerm)):
        with pytest.raises(TypeError, match="does not act on each row alone"):
            one + other
        return
    try:
        both = one + other
    except ValueError as error:
        assert str(error).startswith(("No closed-form prox is known for ", "No number lies in all of "))
        assert repr(one) in str(error)
        assert repr(other) in str(error)
        return
    for X, step in itertools.product(points(f"{first}+{second}", both, WIDTH), (0.1, 1.0)):
        assert_prox(both, X, step, generator(first))
        P = both.prox(X, step)
        assert both.value(P) == pytest.approx(one.value(P) + other.value(P), rel=1e-12)


@pytest.mark.parametrize("name", tables.SUMS)
def test_order_and_nesting_do_not_matter(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, Sum)
    X = generator(name).normal(size=(4, width))
    expected = term.prox(X, 0.5)
    for order in itertools.islice(itertools.permutations(term.terms), 6):
        other = Sum(order, iterative=term.iterative)
        np.testing.assert_allclose(other.prox(X, 0.5), expected, rtol=1e-10, atol=1e-10)
        nested = Sum((Sum(order[:1]), Sum(order[1:], iterative=term.iterative)), term.iterative)
        assert nested == other


@pytest.mark.parametrize("name", tables.ITERATIVE)
def test_what_splitting_computes_has_no_closed_form(name: str) -> None:
    term, _ = TERMS[name]
    assert isinstance(term, Sum)
    with pytest.raises(ValueError, match=r"Use `Sum\(terms, iterative=True\)`"):
        Sum(term.terms)


@pytest.mark.parametrize("name", tables.COMPOSED)
def test_asking_for_splitting_changes_nothing_where_there_is_a_closed_form(name: str) -> None:
    term, width = TERMS[name]
    assert isinstance(term, Sum)
    X = generator(name).normal(size=(4, width))
    asked = Sum(term.terms, iterative=True)
    np.testing.assert_array_equal(asked.prox(X, 0.5), term.prox(X, 0.5))


@pytest.mark.parametrize("name", tables.ITERATIVE)
def test_splitting_is_as_exact_for_a_small_row_beside_a_huge_one(name: str) -> None:
    term, width = TERMS[name]
    small, huge = generator(name).normal(size=(2, 1, width))
    together = term.prox(np.concatenate([small, 1e8 * huge]), 0.5)
    np.testing.assert_allclose(together[0], term.prox(small, 0.5)[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", tables.ITERATIVE)
def test_splitting_finishes_on_constant_rows(name: str) -> None:
    # On some of these the splitting variable 2P − Z all but vanishes, and cannot be the unit of the
    # gap. A prox that stops short warns, and warnings are errors here.
    term, width = TERMS[name]
    for constant, step in itertools.product(np.linspace(0.05, 1, 39), (1e-6, 1e-2)):
        assert np.isfinite(term.value(term.prox(np.full((1, width), constant), step)))


def test_adding_to_an_iterative_sum_stays_iterative() -> None:
    both = Sum((Quadratic(tables.GRID), Simplex()), iterative=True) + Ridge(0.5)
    assert both.iterative
    assert len(both.terms) == 3
    assert_prox(both, generator("iterative").normal(size=(1, WIDTH)), 1.0, generator("near"))


# ------------------------------------------------------------------ identities


def test_shifting_a_row_does_not_change_its_projection_onto_the_simplex() -> None:
    X = generator("shift").normal(size=(20, 9))
    P = Simplex().prox(X, 1.0)
    for shift in (-3.0, 0.1, 1e6):
        np.testing.assert_allclose(Simplex().prox(X + shift, 1.0), P, atol=1e-15 * max(1, abs(shift)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 7, 1000])
def test_projection_onto_the_simplex_subtracts_one_threshold(width: int, dtype: type) -> None:
    rng, eps = generator(f"simplex {width}"), np.finfo(dtype).eps
    for scale in (1e-3, 1.0, 1e3):
        X: Array = (scale * rng.normal(size=(20, width))).astype(dtype)
        P = Simplex().prox(X, 1.0)
        assert np.min(P) >= 0
        np.testing.assert_allclose(np.sum(P, axis=1), 1, atol=10 * width**0.5 * eps * max(1, scale))
        for x, p in zip(X, P, strict=True):
            threshold = (x - p)[p > 0]
            assert np.ptp(threshold) <= 16 * eps * max(1, scale)
            assert np.all(x[p == 0] <= np.max(threshold) + 16 * eps * max(1, scale))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_rows_land_in_the_simplex(dtype: type) -> None:
    width = 100_000
    X = generator("wide").dirichlet(np.ones(width), size=2) + generator("noise").normal(size=width) / width
    assert Simplex().value(Simplex().prox(X.astype(dtype), 1.0)) == 0


def test_points_of_the_simplex_stay() -> None:
    P = generator("stay").dirichlet(np.ones(5), size=10)
    np.testing.assert_allclose(Simplex().prox(P, 1.0), P, atol=1e-15)
    np.testing.assert_array_equal(Simplex().prox(np.eye(5), 1.0), np.eye(5))


def test_groups_of_one_are_l1() -> None:
    X = generator("singletons").normal(size=(10, WIDTH))
    groups = tables.groups([[j] for j in range(WIDTH)], [0.7] * WIDTH)
    np.testing.assert_allclose(groups.prox(X, 0.9), L1(0.7).prox(X, 0.9), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(groups.row_values(X), L1(0.7).row_values(X), rtol=1e-13)


def test_one_group_shortens_the_row() -> None:
    X = generator("one group").normal(size=(10, WIDTH))
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    P = tables.groups([range(WIDTH)], [2.0]).prox(X, 0.9)
    np.testing.assert_allclose(P, X * np.maximum(1 - 1.8 / norms, 0), rtol=1e-13, atol=1e-15)


def test_weights_of_groups_default_to_the_root_of_their_size() -> None:
    assert tables.groups(tables.CHAIN) == tables.groups(tables.CHAIN, [3**0.5, 3**0.5, 2**0.5])


def test_nested_groups_are_shrunk_from_the_inside_out() -> None:
    # Jenatton et al. (2011): the prox of a tree of groups is one pass from the leaves to the root.
    X, step = generator("tree").normal(size=(10, WIDTH)), 0.5
    weights = [0.5, 0.4, 0.3, 0.2]
    expected = X.copy()
    for group, weight in zip(tables.NESTED, weights, strict=True):
        norms = np.linalg.norm(expected[:, group], axis=1, keepdims=True)
        expected[:, group] *= np.maximum(1 - step * weight / norms, 0)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        term = tables.groups([tables.NESTED[i] for i in order], [weights[i] for i in order])
        np.testing.assert_allclose(term.prox(X, step), expected, rtol=0, atol=1e-13)


def test_a_group_named_twice_has_both_weights() -> None:
    X = generator("twice").normal(size=(10, 4))
    twice = tables.groups([[0, 1], [2, 3], [1, 0]], [0.3, 0.5, 0.4])
    once = tables.groups([[0, 1], [2, 3]], [0.7, 0.5])
    np.testing.assert_allclose(twice.prox(X, 1.0), once.prox(X, 1.0), rtol=0, atol=1e-13)


def test_groups_that_vanish_are_exactly_zero() -> None:
    P = tables.groups(tables.CHAIN, [1.0, 0.1, 0.1]).prox(np.array([[0.3, -0.2, 0.1, 1, 2, 3.0]]), 1.0)
    assert np.all(P[0, :3] == 0)
    assert np.all(P[0, 3:] != 0)


def test_low_rank_quadratic_is_the_quadratic_of_its_matrix() -> None:
    low_rank = BASIC["low-rank-quadratic"]
    formed = Quadratic(reference.quadratic_matrix(low_rank))
    assert isinstance(low_rank, LowRankQuadratic)
    X = generator("low rank").normal(size=(10, WIDTH))
    np.testing.assert_allclose(low_rank.row_values(X), formed.row_values(X), rtol=1e-12)
    for step in STEPS:
        np.testing.assert_allclose(low_rank.prox(X, step), formed.prox(X, step), atol=1e-12)


@pytest.mark.parametrize("dtype, digits", [(np.float32, 1e-4), (np.float64, 1e-10)])
def test_low_rank_quadratic_is_exact_where_it_is_small(dtype: type, digits: float) -> None:
    # along V, f is tiny beside rest · ‖z‖²: a difference of the two would lose it
    vectors = np.eye(WIDTH)[:, [1, 4]]
    Z: Array = (generator("small").normal(size=(5, 2)) @ vectors.T).astype(dtype)
    expected = 0.5e-12 * np.sum(Z.astype(np.float64) ** 2, axis=1)
    term = LowRankQuadratic(vectors, np.full(2, 1e-12), rest=1.0)
    np.testing.assert_allclose(term.row_values(Z), expected, rtol=digits)


def test_sparse_and_dense_quadratics_agree() -> None:
    laplacian = grid_laplacian(3, 4)
    X = generator("sparse").normal(size=(10, 12))
    sparse, dense = Quadratic(laplacian, 0.7), Quadratic(laplacian.toarray(), 0.7)
    np.testing.assert_allclose(sparse.row_values(X), dense.row_values(X), rtol=1e-12)
    assert sparse.smoothness == pytest.approx(dense.smoothness)
    for step in STEPS:
        np.testing.assert_allclose(sparse.prox(X, step), dense.prox(X, step), atol=1e-12)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_array", "dia_array", "lil_array"])
def test_every_kind_of_sparse_matrix_will_do(kind: str) -> None:
    laplacian = getattr(scipy.sparse, kind)(grid_laplacian(2, 3))
    assert Quadratic(laplacian, 0.5) == Quadratic(tables.GRID, 0.5)
    X = generator(kind).normal(size=(3, WIDTH))
    np.testing.assert_array_equal(Quadratic(laplacian).prox(X, 1.0), Quadratic(tables.GRID).prox(X, 1.0))


def test_a_multiple_of_the_identity_is_a_ridge() -> None:
    X = generator("identity").normal(size=(5, WIDTH))
    for matrix in (np.eye(WIDTH), scipy.sparse.identity(WIDTH, format="csr")):
        np.testing.assert_allclose(Quadratic(matrix, 1.5).prox(X, 0.7), Ridge(1.5).prox(X, 0.7), rtol=1e-13)


def test_max_column_norm_of_one_column_is_a_ridge() -> None:
    X = generator("column").normal(size=(5, 1))
    np.testing.assert_allclose(MaxColumnNorm(1.5).prox(X, 0.7), Ridge(1.5).prox(X, 0.7), rtol=1e-13)


def test_max_column_norm_leaves_short_columns_and_directions() -> None:
    X = generator("columns").normal(size=(3, 8))
    P = MaxColumnNorm(0.8).prox(X, 1.0)
    before, after = np.linalg.norm(X, axis=0), np.linalg.norm(P, axis=0)
    longest = np.max(after)
    np.testing.assert_allclose(after, np.minimum(before, longest), rtol=1e-13)
    np.testing.assert_allclose(P / after, X / before, rtol=1e-12)
    # the root equation: step · weight · q = Σ of what was cut off
    assert 0.8 * longest == pytest.approx(np.sum(before - after), rel=1e-12)


def test_a_box_from_zero_to_infinity_is_nonnegative() -> None:
    X = generator("cone").normal(size=(5, WIDTH))
    np.testing.assert_array_equal(Box(0.0, INF).prox(X, 1.0), NonNegative().prox(X, 1.0))
    assert Box(0.0, INF).traits == NonNegative().traits


@pytest.mark.parametrize("name", [n for n, t in BASIC.items() if isinstance(t, AbstractRowTerm)])
def test_adding_nothing_changes_nothing(name: str) -> None:
    term = BASIC[name]
    try:
        both = Sum((term, Free()), iterative=True)
    except ValueError:
        pytest.fail("Free() is no hindrance to any theorem")
    X = generator(name).normal(size=(3, WIDTH))
    np.testing.assert_allclose(both.prox(X, 0.5), term.prox(X, 0.5), atol=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0, np.float32(0.0)])
def test_zero_weights_change_nothing(weight: float) -> None:
    X = generator("zero").normal(size=(3, WIDTH))
    terms: list[AbstractTerm] = [
        L1(weight),
        Ridge(weight),
        MaxColumnNorm(weight),
        Quadratic(tables.GRID, weight),
        tables.groups(tables.CHAIN, [weight] * 3),
        tables.groups(tables.APART, [weight] * 3),
    ]
    for term in terms:
        np.testing.assert_allclose(term.prox(X, 10.0), X, rtol=1e-14)
        assert term.value(X) == 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_chain_laplacian_sums_squared_steps(n: int) -> None:
    z = generator("chain").normal(size=n)
    assert z @ chain_laplacian(n) @ z == pytest.approx(np.sum(np.diff(z) ** 2), abs=1e-13)


@pytest.mark.parametrize("height, width", [(1, 1), (1, 4), (3, 2), (4, 5)])
def test_grid_laplacian_sums_squared_steps(height: int, width: int) -> None:
    image = generator("grid").normal(size=(height, width))
    steps = np.sum(np.diff(image, axis=0) ** 2) + np.sum(np.diff(image, axis=1) ** 2)
    z = image.ravel()
    assert z @ grid_laplacian(height, width) @ z == pytest.approx(steps, rel=1e-12, abs=1e-13)


# ------------------------------------------------------------------ extreme numbers


@pytest.mark.parametrize("scale", [1e-70, 1e-30, 1e30, 1e70])
def test_sets_at_extreme_scales(scale: float) -> None:
    X = generator("extreme").normal(size=(4, WIDTH))
    Z = scale * X
    best = np.zeros_like(X)
    best[np.arange(4), np.argmax(X, axis=1)] = 1
    simplex = np.full_like(X, 1 / WIDTH) if scale < 1 else best
    np.testing.assert_allclose(Simplex().prox(Z, 1.0), simplex, rtol=1e-13)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(UnitBall().prox(Z, 1.0), Z if scale < 1 else X / norms, rtol=1e-13)
    clipped = Z if scale < 1 else np.sign(X)
    np.testing.assert_array_equal(Box(-1.0, 1.0).prox(Z, 1.0), clipped)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("name", ["max-column-norm", "group-apart", "group-chain", "l1", "ball"])
def test_single_precision_survives_squares_out_of_range(name: str, scale: float) -> None:
    term, width = TERMS[name]
    X = generator(name).normal(size=(3, width)) * scale
    step = scale if Trait.HOMOGENEOUS in term.traits else 1.0
    P = term.prox(X.astype(np.float32), step)
    np.testing.assert_allclose(P, term.prox(X, step), rtol=1e-4, atol=1e-6 * scale)
    assert np.isfinite(term.value(P))


@pytest.mark.parametrize("name", [n for n, t in BASIC.items() if n not in ("user",)])
def test_a_step_from_numpy_keeps_single_precision(name: str) -> None:
    term, width = TERMS[name]
    X = generator(name).normal(size=(3, width)).astype(np.float32)
    assert term.prox(X, np.float64(0.5)).dtype == np.float32


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("kind", [L1, Ridge, MaxColumnNorm])
@pytest.mark.parametrize("weight", [-0.1, float("nan"), INF, "1", None, True])
def test_bad_weights_are_refused(kind: Any, weight: Any) -> None:
    with pytest.raises(ValueError, match=r"`weight` is .*\. Use a finite number of at least 0\."):
        kind(weight)


@pytest.mark.parametrize("weight", [-0.1, float("nan")])
def test_bad_weights_of_quadratics_are_refused(weight: float) -> None:
    V, values = np.eye(3)[:, :1], np.ones(1)
    with pytest.raises(ValueError, match="`weight` is"):
        Quadratic(np.eye(3), weight)
    with pytest.raises(ValueError, match="`weight` is"):
        LowRankQuadratic(V, values, 1.0, weight)
    with pytest.raises(ValueError, match="`rest` is"):
        LowRankQuadratic(V, values, weight)


@pytest.mark.parametrize("low, high", [(1.0, 0.0), (float("nan"), 1.0), (0.0, float("nan"))])
def test_bad_boxes_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"`low` is .* and `high` is .*\. Use low ≤ high with a number"):
        Box(low, high)


@pytest.mark.parametrize("end", [-INF, INF])
def test_a_box_at_infinity_is_refused(end: float) -> None:
    with pytest.raises(ValueError, match="`low` is"):
        Box(end, end)


@pytest.mark.parametrize(
    "groups, message",
    [
        ([[0, 1], [3]], r"`groups` leaves out the column 2. Put each in a group."),
        ([[1, 2]], r"`groups` leaves out the column 0"),
        ([], r"`groups` leaves out the column 0"),
        ([[0], []], r"`groups\[1\]` is \(\). Use at least one column index, each ≥ 0 and once."),
        ([[0, 1, 0]], r"`groups\[0\]` is \(0, 1, 0\)"),
        ([[0], [1, -1]], r"`groups\[1\]` is \(1, -1\)"),
        ([[0, 1.5]], r"`groups\[0\]` is \(0, 1.5\)\. Use at least one column index"),
    ],
)
def test_bad_groups_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables.groups(groups)


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0], r"`weights` has shape \(1,\) for 2 groups. Use one for each."),
        ([1.0] * 3, r"`weights` has shape \(3,\) for 2 groups"),
        ([1.0, -1.0], "`weights` is -1.0. Use a finite number of at least 0."),
        ([1.0, float("nan")], "`weights` is nan"),
    ],
)
def test_bad_group_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables.groups([[0], [1, 2]], weights)


as_given = pytest.mark.parametrize(
    "form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix], ids=["dense", "array", "matrix"]
)


@as_given
def test_bad_matrices_are_refused(form: Any) -> None:
    with pytest.raises(ValueError, match=r"has shape \(2, 3\). Use a square one."):
        Quadratic(form(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"is not symmetric\. Use a symmetric one"):
        Quadratic(form(np.array([[1.0, 0.5], [0.0, 1.0]])))
    with pytest.raises(ValueError, match="has NaN or infinite entries"):
        Quadratic(form(np.array([[1.0, np.nan], [np.nan, 1.0]])))
    with pytest.raises(ValueError, match="has NaN or infinite entries"):
        Quadratic(form(np.diag([1.0, np.inf])))


@as_given
@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([1.0, -1.0]),
        np.diag([1.0, 0.0, -1e-6]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        -chain_laplacian(5).toarray(),
        np.diag([1.0, 3.0, 4.0, 0.0]) + np.ones((4, 4)) - np.diag([2.0, 2.0, 2.0, 0.0]),
    ],
    ids=lambda matrix: f"{len(matrix)}x{len(matrix)}",
)
def test_indefinite_matrices_are_refused(form: Any, matrix: Array) -> None:
    assert np.linalg.eigvalsh(matrix)[0] < 0
    with pytest.raises(ValueError, match=r"has a negative eigenvalue\. Use a positive semidefinite one"):
        Quadratic(form(matrix))


@as_given
def test_eigenvalues_that_are_negative_by_rounding_are_accepted_and_larger_ones_refused(form: Any) -> None:
    for size in (1e-16, 1e-14, 1e-12):
        assert Quadratic(form(np.diag([1.0, -size]))).width == 2
    for size in (1e-7, 1e-6, 1e-4):
        with pytest.raises(ValueError, match="has a negative eigenvalue"):
            Quadratic(form(np.diag([1.0, -size])))


@as_given
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_singular_matrices_are_accepted(form: Any, scale: float) -> None:
    for matrix in (chain_laplacian(30).toarray(), np.ones((9, 9)), np.zeros((3, 3)), np.eye(1)):
        assert Quadratic(form(scale * matrix)).width == len(matrix)


def test_a_vector_is_no_matrix() -> None:
    with pytest.raises(ValueError, match="Use a square one"):
        Quadratic(np.ones(3))


def test_bad_eigenvectors_are_refused() -> None:
    with pytest.raises(ValueError, match="The columns of `vectors` are not orthonormal"):
        LowRankQuadratic(np.ones((3, 2)), np.ones(2), 1.0)
    with pytest.raises(ValueError, match="The columns of `vectors` are not orthonormal"):
        LowRankQuadratic(2 * np.eye(3)[:, :2], np.ones(2), 1.0)
    with pytest.raises(ValueError, match=r"`vectors` has shape \(3, 2\) and `values` \(3,\)"):
        LowRankQuadratic(np.eye(3)[:, :2], np.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"`vectors` has shape \(3,\)"):
        LowRankQuadratic(np.ones(3), np.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"`values` has the entry .*-1.0.*Use entries of at least 0"):
        LowRankQuadratic(np.eye(3)[:, :2], np.array([1.0, -1.0]), 1.0)
    with pytest.raises(ValueError, match="`values` has the entry"):
        LowRankQuadratic(np.eye(3)[:, :2], np.array([1.0, np.nan]), 1.0)


def test_terms_do_not_share_memory_with_what_they_were_made_of() -> None:
    vectors, values, matrix = np.eye(3)[:, :1].copy(), np.ones(1), np.eye(3)
    low_rank, dense = LowRankQuadratic(vectors, values, 2.0), Quadratic(matrix)
    X = np.ones((1, 3))
    before = low_rank.prox(X, 1.0), dense.prox(X, 1.0), dense.value(X)
    vectors[:], values[:], matrix[:] = 7.0, 7.0, 7.0
    np.testing.assert_array_equal(low_rank.prox(X, 1.0), before[0])
    np.testing.assert_array_equal(dense.prox(X, 1.0), before[1])
    assert dense.value(X) == before[2]


def test_terms_that_couple_rows_cannot_be_summed() -> None:
    with pytest.raises(TypeError, match=r"MaxColumnNorm\(weight=1.0\) does not act on each row alone"):
        Sum((MaxColumnNorm(1.0), NonNegative()))
    with pytest.raises(TypeError, match="Only row terms can be summed"):
        Sum((Ridge(1.0), MaxColumnNorm(1.0)), iterative=True)


def test_a_sum_without_a_known_prox_is_refused() -> None:
    message = r"No closed-form prox is known for L1\(weight=1.0\) \+ Simplex\(\). Use `Sum\(terms"
    with pytest.raises(ValueError, match=message):
        L1(1.0) + Simplex()


def test_a_sum_that_does_not_split_is_refused() -> None:
    terms = (Simplex(), Quadratic(np.eye(3)), tables.groups([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match="does not split into two halves with known proxes either"):
        Sum(terms, iterative=True)


def test_a_sum_of_different_widths_is_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        Sum((tables.groups([[0, 1, 2]]), Quadratic(np.eye(4))), iterative=True)


def test_an_empty_sum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`terms` is empty\. Use at least one term"):
        Sum(())


@pytest.mark.parametrize("first", [Box(0.0, 1.0), Absent()], ids=repr)
def test_intervals_that_do_not_meet_are_refused(first: AbstractRowTerm) -> None:
    with pytest.raises(ValueError, match=r"No number lies in all of the intervals .* that meet\."):
        first + Box(2.0, 3.0)


def test_overlapping_groups_say_when_they_stop_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrmf.terms.groups.MAX_ITERATIONS", 2)
    X = np.ones((3, WIDTH)) * [[0.0], [1.0], [2.0]]
    message = "prox of overlapping groups stopped short on 2 of 3 rows after 2 iterations"
    with pytest.warns(ConvergenceWarning, match=message):
        tables.groups(tables.CHAIN, [0.1, 0.2, 0.3]).prox(X, 1.0)


def test_splitting_says_when_it_stops_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrmf.terms.douglas_rachford.MAX_ITERATIONS", 2)
    term = Sum((Quadratic(tables.GRID), Simplex()), iterative=True)
    with pytest.warns(ConvergenceWarning, match=r"stopped short at a gap of .* after 2 iterations"):
        term.prox(generator("short").normal(size=(1, WIDTH)), 1.0)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3"])
def test_bad_sizes_of_graphs_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=r"`n_features` is .*\. Use a whole number of at least 1\."):
        chain_laplacian(n)
    with pytest.raises(ValueError, match="Use a whole number of at least 1"):
        grid_laplacian(n, 3)
