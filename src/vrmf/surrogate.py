"""The dictionary that minimises a quadratic surrogate ½ tr(Dᵀ A D) − tr(Dᵀ B) + ψ(D).

How, depends on ψ: by a rotation where ψ is quadratic (P5, P7), atom by atom where it acts on rows
(P1–P4, P8), and by accelerated proximal gradient steps where it couples atoms (P6), since descent
by atoms would stall there.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from vrmf._atoms import BALL, FREE, NONNEGATIVE, NONNEGATIVE_BALL, SIMPLEX, sweep_atoms
from vrmf.arrays import Array
from vrmf.momentum import next_momentum
from vrmf.terms import (
    AbstractRowTerm,
    AbstractTerm,
    Free,
    NonNegative,
    Quadratic,
    Ridge,
    Simplex,
    Sum,
    Trait,
    UnitBall,
)
from vrmf.terms.sums import parts_of, ridge_of

#: Bound on the iterations of the accelerated method.
MAX_ITERATIONS = 200

#: The accelerated method ends when a step is this much shorter than the first.
ACCURACY = 1e-2

#: The promised decrease is summed over descents until one adds less than a share of it, or until a number
#: of descents. This share and this number give a rough value.
IN_PASSING = (0.5, 3)

#: The share and the number that give an accurate value.
THOROUGH = (0.01, 100)


def minimise_surrogate(term: AbstractTerm, A: Array, B: Array, D: Array, sweeps: int = 1) -> Array:
    """Return a dictionary no worse than D, the minimiser where it has a closed form.

    >>> minimise_surrogate(Ridge(1.0), np.eye(1), np.array([[4.0]]), np.zeros((1, 1)))
    array([[2.]])
    """
    return descend_surrogate(term, A, A @ D - B, D, sweeps)


def descend_surrogate(term: AbstractTerm, A: Array, G: Array, D: Array, sweeps: int = 1) -> Array:
    """Return a dictionary D′ no worse than D for ⟨G, D′ − D⟩ + ½ tr((D′ − D)ᵀ A (D′ − D)) + ψ(D′).

    With the gradient G of the mean loss and its curvature A this is a step of certain descent, in
    the metric of A: it takes each direction as far as its own curvature allows.
    """
    if Trait.QUADRATIC in term.traits:
        return by_rotation(term, A, G, D)
    if isinstance(term, AbstractRowTerm):
        return by_atoms(term, A, G, D, sweeps)
    return by_gradient(term, A, G, D)


def promised_decrease(
    term: AbstractTerm, A: Array, G: Array, D: Array, effort: tuple[float, int] = THOROUGH
) -> float:
    """Return by how much the best D′ lowers ⟨G, D′ − D⟩ + ½ tr((D′ − D)ᵀ A (D′ − D)) + ψ(D′) − ψ(D).

    The surrogate lies above f − f(D), so one step to its minimum lowers f by at least as much. It is 0
    exactly at stationary points. Where the minimum has no closed form, descents approach it, so that
    the number is a little too small; it is computed in double precision.

    >>> promised_decrease(Free(), np.eye(1), np.array([[2.0]]), np.zeros((1, 1)))
    2.0
    """
    A, G, D = (np.asarray(Z, dtype=np.float64) for Z in (A, G, D))
    value, P, slope, promised = term.value(D), D, G, 0.0
    last_share, most = effort
    smooth, rest = smooth_part(term) if isinstance(term, AbstractRowTerm) else (None, term)
    for _ in range(most):
        if smooth is None:
            P = descend_surrogate(term, A, slope, P)
        else:  # sweeps, with a bound on its curvature, would take long
            P = by_gradient(rest, A, slope, P, smooth=smooth)
        step = P - D
        slope = G + A @ step
        # ⟨G, step⟩ + ½ tr(stepᵀ A step) is the mean of both slopes along the step.
        reached = value - term.value(P) - 0.5 * (float(np.vdot(G, step)) + float(np.vdot(slope, step)))
        if not reached - promised > last_share * reached:
            return max(reached, promised)
        promised = reached
    return promised


def by_rotation(term: AbstractTerm, A: Array, G: Array, D: Array) -> Array:
    """Solve A D′ + D′ Q = A D − G (a Sylvester equation) in the eigenbasis of A: a prox per row.

    A small multiple of the distance to the old D is added. It makes the minimiser unique where A is
    singular and ψ is flat.
    """
    damping = float(np.trace(A)) * 16 * float(np.finfo(A.dtype).eps) or 1.0
    values, U = scipy.linalg.eigh(A, check_finite=False)
    curvature = np.maximum(values, 0) + damping
    targets = U.T @ D - (U.T @ G) / curvature[:, None]
    if isinstance(term, Ridge | Free):
        return U @ (targets / (1 + ridge_of(term) / curvature)[:, None])
    rows = [term.prox(targets[[i]], 1 / float(c)) for i, c in enumerate(curvature)]
    return U @ np.concatenate(rows)


def by_atoms(term: AbstractRowTerm, A: Array, G: Array, D: Array, sweeps: int = 1) -> Array:
    """Minimise over one atom after another; each is a prox, since the surrogate is round in an atom.

    A quadratic part of a sum (P4) counts as smooth, by its own bound on its curvature, since the
    prox of the sum has no closed form. An atom that no code uses has no curvature of its own; that of
    the most used one stands in, so that a penalty moves it no faster than the others.
    """
    smooth, rest = smooth_part(term)
    used = np.diag(A) > np.finfo(A.dtype).eps * np.max(np.diag(A), initial=0.0)
    kind = atom_set(rest)
    D = D.copy()
    start, most = D.copy(), float(np.max(np.diag(A), initial=0.0)) or 1.0
    if smooth is None and kind is not None:
        A = np.ascontiguousarray(A)
        for sweep in range(sweeps):
            slope = G + A @ (D - start) if sweep else np.array(G, order="C")
            sweep_atoms(A, slope, D, kind, used)
        return D
    for _ in range(sweeps):
        for j in range(len(D)):
            slope, curvature = G[j] + A[j] @ (D - start), float(A[j, j]) if used[j] else most
            if smooth is not None:
                slope = slope + smooth.weight * (D[j] @ smooth.matrix)
                curvature += smooth.smoothness
            D[j] = rest.prox((D[j] - slope / curvature)[None], 1 / curvature)[0]
    return D


def by_gradient(
    term: AbstractTerm,
    A: Array,
    G: Array,
    D: Array,
    accuracy: float = ACCURACY,
    smooth: Quadratic | None = None,
) -> Array:
    """Take accelerated proximal gradient steps on all atoms together, with restarts.

    A quadratic penalty besides ψ may count as ``smooth``.
    """
    lipschitz = max(float(scipy.linalg.eigvalsh(A, check_finite=False)[-1]), 0.0)
    lipschitz = (lipschitz + (0.0 if smooth is None else smooth.smoothness)) or 1.0
    first = None
    P, Y, t = D, D, 1.0
    for _ in range(MAX_ITERATIONS):
        slope = G + A @ (Y - D)
        if smooth is not None:
            slope = slope + smooth.weight * (Y @ smooth.matrix)
        previous, P = P, term.prox(Y - slope / lipschitz, 1 / lipschitz)
        length = float(np.linalg.norm(P - Y))
        first = length if first is None else first
        if length <= max(accuracy * first, 16 * float(np.finfo(D.dtype).eps) * float(np.linalg.norm(P))):
            break
        t = 1.0 if np.sum((Y - P) * (P - previous)) > 0 else t
        factor, t = next_momentum(t)
        Y = P + factor * (P - previous)
    return P


def smooth_part(term: AbstractRowTerm) -> tuple[Quadratic | None, AbstractRowTerm]:
    """Split a quadratic penalty off a sum whose prox has no closed form, or nothing."""
    if isinstance(term, Sum) and term.iterative and len(term.terms) == 2:
        for quadratic, rest in (term.terms, term.terms[::-1]):
            if isinstance(quadratic, Quadratic) and isinstance(rest, AbstractRowTerm):
                return quadratic, rest
    return None, term


def atom_set(term: AbstractTerm) -> int | None:
    """Return the number under which the compiled kernel knows a set of atoms, or None."""
    kinds: dict[frozenset[type[AbstractTerm]], int] = {
        frozenset({Free}): FREE,
        frozenset({UnitBall}): BALL,
        frozenset({NonNegative}): NONNEGATIVE,
        frozenset({NonNegative, UnitBall}): NONNEGATIVE_BALL,
        frozenset({Simplex}): SIMPLEX,
    }
    return kinds.get(frozenset(map(type, parts_of(term))))
