"""Samples of linear algebra and Fourier transforms. Matrices have a large diagonal whose
elements are apart, so that inverses are small and eigenvalues differ. What mathematics
leaves open is made definite as the ops do: see internal/op/linalg.go. Only the symmetric
part of operands of Cholesky and Eigh counts. Complex numbers are pairs in a last axis."""

import numpy as np
import torch

from recorder import L, S, X, op

BOTH = ["float32", "float64"]
NO = dict(only=BOTH, grad=False, smooth=False)


class M(X):
    """Matrices whose diagonal dominates; scale makes the rest larger."""

    def __init__(self, *shape, diagonal=2.0, apart=2.0, **more):
        super().__init__(*shape, lo=-0.5, hi=0.5, **more)
        self.diagonal, self.apart = diagonal, apart

    def floats(self, rng):
        v = super().floats(rng)
        m, n = self.shape[-2:]
        for i in range(min(m, n)):
            v[..., i, i] += self.diagonal + self.apart * i
        return v


def symmetric(a):
    return (a + a.mT) / 2


def sign(u):
    """1 or -1 for each column: the sign of the first of its largest components."""
    u = u.detach()
    if u.numel() == 0:
        return u.new_ones(u.shape[:-2] + (1, u.shape[-1]))
    large = u.abs() >= 0.999 * u.abs().amax(-2, keepdim=True)
    first = large.to(torch.uint8).argmax(-2, keepdim=True)
    return torch.where(u.gather(-2, first) < 0, -1.0, 1.0).to(u.dtype)


def qr(a):
    q, r = torch.linalg.qr(a)
    d = torch.where(torch.diagonal(r.detach(), dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(a.dtype)
    return q * d.unsqueeze(-2), r * d.unsqueeze(-1)


def svd(a):
    u, s, vt = torch.linalg.svd(a, full_matrices=False)
    f = sign(u)
    return u * f, s, vt * f.mT


def eigh(a):
    w, v = torch.linalg.eigh(symmetric(a))
    return w, v * sign(v)


SQUARE = [S(M(1, 1)), S(M(2, 2)), S(M(3, 3)), S(M(4, 4)), S(M(2, 3, 3)), S(M(2, 2, 2, 2)), S(M(0, 3, 3), smooth=False), S(M(2, 0, 0), smooth=False)]
LARGE = [S(M(17, 17, diagonal=10.0), smooth=False), S(M(3, 9, 9, diagonal=6.0), smooth=False)]

op("Tensor.Cholesky", lambda a: torch.linalg.cholesky(symmetric(a)), BOTH, *SQUARE, *LARGE)
op("Tensor.Inverse", torch.linalg.inv, BOTH, *SQUARE, *LARGE)
op("Tensor.Det", torch.linalg.det, BOTH, S(M(1, 1)), S(M(2, 2)), S(M(3, 3)), S(M(2, 3, 3)), S(M(2, 2, 2, 2)), S(M(0, 3, 3), smooth=False), S(M(2, 0, 0), smooth=False), S(M(5, 5), smooth=False),
   S(L([[0.0, 0.0], [0.0, 0.0]]), grad=False), S(L([[0.0, 1.0], [1.0, 0.0]])), S(L([[1.0, float("nan")], [0.0, 2.0]]), grad=False))


def leibniz(a):
    """Singular matrices, for which PyTorch's gradient is 0."""
    if a.shape[-1] == 2:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    return torch.dot(a[0], torch.linalg.cross(a[1], a[2]))


# Second gradients are for matrices that are not singular, from 3×3 on.
op("Tensor.Det", leibniz, BOTH, S(L([[1.0, 2.0], [2.0, 4.0]])), S(L([[0.0, 0.0], [0.0, 0.0]])), S(L([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 5.0]]), smooth=False), S(L([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 0.0]]), smooth=False))
op("Tensor.SlogDet", lambda a: tuple(torch.linalg.slogdet(a)), BOTH, *SQUARE, *LARGE, S(L([[0.0, 1.0], [2.0, 0.0]])), S(L([[1.0, 2.0], [2.0, 4.0]]), grad=False), S(L([[0.0, 0.0], [0.0, 0.0]]), grad=False))


def solve(a, b):
    return torch.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1) if b.dim() == 1 else torch.linalg.solve(a, b)


op("Tensor.Solve", solve, BOTH, S(M(1, 1), X(1, 1)), S(M(3, 3), X(3, 2)), S(M(3, 3), X(3)), S(M(2, 3, 3), X(2, 3, 1)), S(M(2, 3, 3), X(3, 2)), S(M(3, 3), X(2, 3, 2)), S(M(2, 1, 2, 2), X(3, 2, 1)), S(M(2, 3, 3), X(3)),
   S(M(0, 3, 3), X(0, 3, 2), smooth=False), S(M(3, 3), X(3, 0), smooth=False), S(M(0, 0), X(0, 2), smooth=False), S(M(17, 17, diagonal=10.0), X(17, 5), smooth=False), S(L([[0.0, 2.0], [1.0, 0.0]]), X(2, 2)))


def solve_triangular(a, b, upper=False, unit=False):
    v = b.dim() == 1
    x = torch.linalg.solve_triangular(a, b.unsqueeze(-1) if v else b, upper=upper, unitriangular=unit)
    return x.squeeze(-1) if v else x


for upper in False, True:
    for unit in False, True:
        f = dict(upper=upper, unit=unit)
        op("Tensor.SolveTriangular", solve_triangular, BOTH, S(M(1, 1), X(1, 1), **f), S(M(3, 3), X(3, 2), **f), S(M(3, 3), X(3), **f), S(M(2, 3, 3), X(2, 3, 1), **f), S(M(2, 3, 3), X(3, 2), **f), S(M(4, 4), X(2, 4, 2), **f),
           S(M(0, 3, 3), X(0, 3, 2), smooth=False, **f), S(M(3, 3), X(3, 0), smooth=False, **f))

TALL = [S(M(4, 2)), S(M(3, 1)), S(M(2, 4, 3)), S(M(7, 4, diagonal=4.0), smooth=False), S(M(33, 17, diagonal=10.0), smooth=False)]
FLAT = [S(M(2, 4)), S(M(1, 3)), S(M(2, 3, 4)), S(M(17, 33, diagonal=10.0), smooth=False)]
EMPTY = [S(M(0, 3), **NO), S(M(3, 0), **NO)]
op("Tensor.QR", qr, BOTH, *SQUARE, *TALL, *EMPTY)
# PyTorch has no gradient for more columns than rows; it is checked by differences.
op("Tensor.QR", qr, BOTH, *[S(*s.inputs, **NO) for s in FLAT])


def flat_qr(a):
    q, _ = qr(a[..., :, : a.shape[-2]])
    return q, (q.mT @ a).triu()


op("Tensor.QR", flat_qr, BOTH, *FLAT)
op("Tensor.SVD", svd, BOTH, *SQUARE, *LARGE, *TALL, *FLAT, *EMPTY)
op("Tensor.SVDVals", torch.linalg.svdvals, BOTH, *SQUARE, *LARGE, *TALL, *FLAT, *EMPTY)
op("Tensor.Eigh", eigh, BOTH, *SQUARE, *LARGE)
op("Tensor.Eigvalsh", lambda a: torch.linalg.eigvalsh(symmetric(a)), BOTH, *SQUARE, *LARGE)
LINES = [S(M(4, 2), X(4, 2)), S(M(4, 2), X(4)), S(M(2, 4, 3), X(2, 4, 1)), S(M(2, 4, 3), X(4, 2)), S(M(3, 3), X(3, 2)), S(M(2, 4), X(2, 2)), S(M(2, 3, 4), X(2, 3, 1)), S(M(1, 3), X(1))]


def lstsq(a, b):
    """By the pseudoinverse, whose gradient holds for all shapes of full rank."""
    x = b.unsqueeze(-1) if b.dim() == 1 else b
    y = torch.linalg.pinv(a) @ x
    return y.squeeze(-1) if b.dim() == 1 else y


op("Tensor.LstSq", lstsq, BOTH, *LINES)

# ---- Fourier transforms -------------------------------------------------

NORMS = ["backward", "ortho", "forward"]


def spectrum(f):
    """f of complex numbers as one of pairs."""
    def g(x, axes=(-1,), norm="backward"):
        return torch.view_as_real(f(torch.view_as_complex(x.contiguous()), dim=tuple(axes), norm=norm).contiguous())
    return g


def rfft(x, axes=(-1,), norm="backward"):
    return torch.view_as_real(torch.fft.rfftn(x, dim=tuple(axes), norm=norm).contiguous())


def irfft(x, axes=(-1,), norm="backward", n=0):
    c = torch.view_as_complex(x.contiguous())
    sizes = [c.shape[a] for a in axes]
    sizes[-1] = n or 2 * (sizes[-1] - 1)
    return torch.fft.irfftn(c, s=sizes, dim=tuple(axes), norm=norm)


PAIRS = [S(X(1, 2)), S(X(2, 2)), S(X(5, 2)), S(X(8, 2)), S(X(3, 4, 2)), S(X(3, 4, 2), axes=[0]), S(X(3, 4, 2), axes=[-2, -1]), S(X(2, 3, 5, 2), axes=[1, 2]), S(X(2, 3, 4, 2), axes=[2, 0]), S(X(3, 4, 2), axes=[0, 1], norm="ortho"), S(X(6, 2), norm="forward"),
         S(X(60, 2), smooth=False), S(X(64, 2), smooth=False), S(X(53, 2), smooth=False), S(X(2, 106, 2), smooth=False), S(X(0, 4, 2), smooth=False)]
op("Tensor.FFT", spectrum(torch.fft.fftn), BOTH, *PAIRS)
op("Tensor.IFFT", spectrum(torch.fft.ifftn), BOTH, *PAIRS)
op("Tensor.RFFT", rfft, BOTH, S(X(1)), S(X(2)), S(X(5)), S(X(8)), S(X(3, 4)), S(X(3, 4), axes=[0]), S(X(3, 4), axes=[0, 1]), S(X(3, 5), axes=[1, 0]), S(X(2, 3, 5), axes=[0, -1], norm="ortho"), S(X(6), norm="forward"),
   S(X(60), smooth=False), S(X(53), smooth=False), S(X(2, 106), smooth=False), S(X(64), smooth=False), S(X(0, 4), smooth=False))
op("Tensor.IRFFT", irfft, BOTH, S(X(2, 2)), S(X(3, 2)), S(X(3, 2), n=5), S(X(1, 2), n=1), S(X(5, 2)), S(X(3, 3, 2)), S(X(3, 4, 2), axes=[0], n=5), S(X(3, 3, 2), axes=[0, 1]), S(X(3, 4, 2), axes=[0, 1], n=7), S(X(3, 4, 2), axes=[1, 0], norm="ortho"), S(X(4, 2), norm="forward"),
   S(X(31, 2), smooth=False), S(X(27, 2), n=53, smooth=False), S(X(54, 2), n=106, smooth=False), S(X(0, 3, 2), smooth=False))
op("ComplexMul", lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)), BOTH, S(X(2), X(2)), S(X(3, 2), X(3, 2)), S(X(3, 1, 2), X(4, 2)), S(X(0, 2), X(0, 2), smooth=False))
op("ComplexAbs", lambda x: torch.linalg.vector_norm(x, 2, -1), BOTH, S(X(2, away=0.2)), S(X(3, 2, away=0.2)), S(X(2, 3, 2, away=0.2)), S(X(0, 2), smooth=False))
