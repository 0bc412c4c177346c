"""A primal-dual interior-point method for the semidefinite relaxation of `rotation`:

    min <M, X>    such that  <A_0, X> = 1,  <A_l, X> = 0,  X positive semidefinite                     (primal)
    max lambda_0  such that  S = M - sum_l lambda_l A_l  positive semidefinite                         (dual)

Both have interior points that are known beforehand, and the method starts from them. X: the mean of y y' over all rotations is
diag(1, I/3). S: the lengths of R's columns are constraints, whose forms add up to diag(-3, I), so that any multiple of the identity
can be added to S. Hence both optima are attained and equal, and each iterate has multipliers that prove a bound.

The path that leads there is X S = mu I for mu from large to zero. With Nesterov and Todd's scaling matrix G,

    G' S G = G^-1 X G^-T = D, diagonal,

a step (dX, dS, dlambda) towards the point of the path with the value sigma mu reads, with scaled steps x = G^-1 dX G^-T and
s = G' dS G and scaled forms a_l = G' A_l G,

    x + s = T,   T_ij = (2 sigma mu I - 2 D^2 - C)_ij / (D_i + D_j),   s = -sum_l dlambda_l a_l,   <a_l, x> = r_l,

where r is what X lacks of its constraints, rounding alone, and C = x s + s x of a first step with sigma = 0 and C = 0 is Mehrotra's
correction for the curvature of the path. In words: s is T's projection onto the space of the a_l, and x the rest. The projection is
done by a QR decomposition of the a_l. The usual Schur complement, the matrix of all <a_k, a_l>, squares their condition number,
which grows as 1 / mu; it would end the way at some 1e-8 where this ends at some 1e-13.

X is kept as a factor L, X = L L', and the next L is G chol(D + step x): it cannot become indefinite by rounding.
"""

import numpy as np

from poli.certify.quadratic import COLUMN, COLUMN_LENGTHS, COUNT, FORM, ROW, SIZE, VALUE, certificate_matrix
from poli.certify.small import dot, eigh, matmul
from poli.kernel import kernel

_START = 2.0  # mu at the start. M has size one, so S is positive definite from 1/3 on
_STEPS = 60  # 10 to 25 are enough
_FINISHED = 1e-15  # of mu: M itself is known no better
_SHORT = 1e-3  # a step that gets no farther is rounding's
_BACK = 0.98  # of the way to where X or S would be singular
_ENTRIES = SIZE * (SIZE + 1) // 2
_ROOT_2 = np.sqrt(2.0)  # entries off the diagonal count twice in an inner product


@kernel
def interior_point(M):  # (10, 10), of size one -> (10, 10), (21,), mu, steps
    """The primal X, the multipliers lambda, the mean mu of the eigenvalues of X S (the gap between primal and dual is 10 mu), and
    the number of steps."""
    L, multipliers = _start()
    best, best_multipliers, least, steps = L, multipliers, np.inf, 0
    for _ in range(_STEPS):
        # 1. Where we are: the eigenvalues D^2 of X S are those of L' S L.
        squares, U = eigh(matmul(L.T, matmul(certificate_matrix(M, multipliers), L)))
        mu = squares.sum() / SIZE
        if not (squares[0] > 0.0 and mu < least):  # as far as float64 goes
            break
        best, best_multipliers, least = L, multipliers, mu
        if mu < _FINISHED:
            break
        # 2. The scaling, the scaled forms and their QR decomposition.
        D = np.sqrt(squares)
        G = matmul(L, U) / np.sqrt(D)
        reflections = _scaled_forms(G)
        R, order = _triangularize(reflections)
        lacking = _infeasibility(L)
        # 3. The step to mu = 0 tells how far the path is straight; the step that counts aims as low as that allows.
        x, s, _ = _direction(_target(D, 0.0, np.zeros((SIZE, SIZE))), reflections, R, order, lacking)
        ahead = ((np.diag(D) + _step_length(D, x) * x) * (np.diag(D) + _step_length(D, s) * s)).sum() / SIZE  # mu after this step
        target = mu * min(max(ahead / mu, 0.0), 1.0) ** 3
        x, s, change = _direction(_target(D, target, matmul(x, s)), reflections, R, order, lacking)
        reach_x, reach_s = _step_length(D, x), _step_length(D, s)
        if not min(reach_x, reach_s) > _SHORT:
            break
        L, multipliers = _primal_factor(G, D, x, reach_x), multipliers + reach_s * change
        steps += 1
    return matmul(best, best.T.copy()), best_multipliers, least, steps


@kernel
def _start():
    """L and lambda with X = diag(1, 1/3, ..., 1/3) and S = M + mu X^-1."""
    L, multipliers = np.zeros((SIZE, SIZE)), np.zeros(COUNT)
    L[0, 0], multipliers[0] = 1.0, -10.0 * _START
    for i in range(1, SIZE):
        L[i, i] = np.sqrt(1.0 / 3.0)
    for i in COLUMN_LENGTHS:
        multipliers[i] = -3.0 * _START
    return L, multipliers


@kernel
def _scaled_forms(G):  # (10, 10) -> (21, 55)
    """G' A_l G, as vectors."""
    out = np.zeros((COUNT, _ENTRIES))
    for e in range(len(FORM)):
        row, column = G[ROW[e]], G[COLUMN[e]]
        value = VALUE[e] if ROW[e] == COLUMN[e] else 2.0 * VALUE[e]
        at = 0
        for i in range(SIZE):
            for j in range(i):
                out[FORM[e], at] += _ROOT_2 * 0.5 * value * (row[i] * column[j] + row[j] * column[i])
                at += 1
            out[FORM[e], at] += value * row[i] * column[i]
            at += 1
    return out


@kernel
def _infeasibility(L):  # (10, 10) -> (21,)
    """What X = L L' lacks of its constraints."""
    out = np.zeros(COUNT)
    out[0] = 1.0
    for e in range(len(FORM)):
        value = VALUE[e] if ROW[e] == COLUMN[e] else 2.0 * VALUE[e]
        out[FORM[e]] -= value * dot(L[ROW[e]], L[COLUMN[e]])
    return out


@kernel
def _target(D, mu, bend):  # (10,), (10, 10) -> (10, 10)
    """T for C = bend + bend'."""
    T = np.empty((SIZE, SIZE))
    for i in range(SIZE):
        for j in range(SIZE):
            T[i, j] = -(bend[i, j] + bend[j, i]) / (D[i] + D[j])
        T[i, i] += mu / D[i] - D[i]
    return T


@kernel
def _direction(T, reflections, R, order, lacking):  # (10, 10), (21, 55), (21, 21), (21,), (21,)
    """x, s and dlambda from x + s = T.

    With the scaled forms as the columns of N = Q R and x = T + N dlambda, the constraints N' x = r are
    R dlambda = R'^-1 r - Q' T.
    """
    rest = _svec(T)
    for k in range(COUNT):
        _reflect(reflections[k], rest, k)
    change = np.empty(COUNT)
    for k in range(COUNT):  # R'^-1 r, which is what Q' x has
        change[k] = lacking[order[k]]
        for i in range(k):
            change[k] -= R[i, k] * change[i]
        change[k] /= R[k, k]
    for k in range(COUNT):
        change[k], rest[k] = change[k] - rest[k], change[k]
    for k in range(COUNT - 1, -1, -1):
        for i in range(k + 1, COUNT):
            change[k] -= R[k, i] * change[i]
        change[k] /= R[k, k]
        _reflect(reflections[k], rest, k)
    x, in_order = _smat(rest), np.empty(COUNT)
    for k in range(COUNT):
        in_order[order[k]] = change[k]
    return x, T - x, in_order


@kernel
def _primal_factor(G, D, x, reach):
    """The L of X after the step: G chol(D + reach x)."""
    C = np.zeros((SIZE, SIZE))
    for j in range(SIZE):
        for i in range(j, SIZE):
            left = reach * x[i, j] + (D[i] if i == j else 0.0) - dot(C[i, :j], C[j, :j])
            C[i, j] = np.sqrt(left) if i == j else left / C[j, j]
    return matmul(G, C)


@kernel
def _triangularize(rows):  # (21, 55) -> (21, 21), (21,)
    """Householder's QR decomposition of the transpose, the longest column first: R, and which column came when. The reflections
    take the place of `rows`: unit vectors, row k from entry k on."""
    R, order = np.zeros((COUNT, COUNT)), np.arange(COUNT)
    for k in range(COUNT):
        longest, square = k, -1.0
        for i in range(k, COUNT):
            other = dot(rows[i, k:], rows[i, k:])
            if other > square:
                longest, square = i, other
        order[k], order[longest] = order[longest], order[k]
        for i in range(k):
            R[i, k], R[i, longest] = R[i, longest], R[i, k]
        for j in range(_ENTRIES):
            rows[k, j], rows[longest, j] = rows[longest, j], rows[k, j]
        R[k, k] = -np.sqrt(square) if rows[k, k] > 0.0 else np.sqrt(square)
        rows[k, k] -= R[k, k]
        length = np.sqrt(dot(rows[k, k:], rows[k, k:]))
        for j in range(k, _ENTRIES):
            rows[k, j] /= length
        for i in range(k + 1, COUNT):
            _reflect(rows[k], rows[i], k)
            R[k, i] = rows[i, k]
    return R, order


@kernel
def _reflect(v, x, k):  # (55,), (55,)
    """x becomes its mirror image at right angles to v[k:], a unit vector."""
    part = 0.0
    for j in range(k, _ENTRIES):
        part += v[j] * x[j]
    for j in range(k, _ENTRIES):
        x[j] -= 2.0 * part * v[j]


@kernel
def _step_length(D, step):
    """How much of the step leaves diag(D) + step positive definite with some room; one at the most."""
    lowest = eigh(step / np.sqrt(np.outer(D, D)))[0][0]
    return min(1.0, -_BACK / lowest) if lowest < 0.0 else 1.0


@kernel
def _svec(A):  # (10, 10) -> (55,)
    """The lower triangle of a symmetric matrix as a vector, with <A, B> = svec(A) . svec(B)."""
    out, at = np.empty(_ENTRIES), 0
    for i in range(SIZE):
        for j in range(i):
            out[at] = _ROOT_2 * A[i, j]
            at += 1
        out[at] = A[i, i]
        at += 1
    return out


@kernel
def _smat(vector):  # (55,) -> (10, 10)
    out, at = np.empty((SIZE, SIZE)), 0
    for i in range(SIZE):
        for j in range(i):
            out[i, j] = out[j, i] = vector[at] / _ROOT_2
            at += 1
        out[i, i] = vector[at]
        at += 1
    return out
