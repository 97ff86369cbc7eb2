"""Samples of ops of volumes, of sampling at given places and of aligned sequences, in a
file of their own."""

import torch

from more import BOTH
from ops import CONV, SMALL, F, activated, op, pairs, pooling
from recorder import L, S, X, given

D = dict(distinct=True, lo=-7, hi=7)

# ---- volumes ------------------------------------------------------------

op("Conv3D", pairs(F.conv3d), CONV, S(X(2, 3, 4, 3, 4), X(2, 3, 2, 3, 2), X(2)), S(X(1, 2, 3, 4, 3), X(4, 2, 3, 3, 3)), S(X(1, 1, 4, 5, 4), X(2, 1, 3, 3, 3), X(2), stride=2, padding=1),
   S(X(2, 4, 3, 3, 3), X(6, 2, 2, 3, 2), X(6), groups=2, padding=[1, 0, 1]), S(X(1, 2, 5, 5, 4), X(1, 2, 3, 2, 2), dilation=2), S(X(1, 3, 3, 3, 3), X(3, 1, 3, 3, 3), X(3), groups=3, padding=1),
   S(X(2, 3, 4, 5), X(3, 2, 2, 1, 2), X(3)), S(X(1, 1, 4, 3, 4), X(1, 1, 2, 3, 4), padding="same"), S(X(1, 2, 6, 4, 5), X(2, 2, 3, 2, 2), X(2), stride=[2, 1, 3], padding=[2, 1, 0], dilation=[2, 1, 1]),
   S(X(0, 2, 3, 3, 3), X(3, 2, 2, 2, 2), X(3)), S(X(2, 3, 3, 2, 2), X(4, 3, 1, 1, 1), X(4)), S(X(1, 2, 5, 4, 4), X(2, 2, 2, 2, 2), X(2), stride=2), S(X(1, 2, 5, 3, 3), X(2, 2, 1, 2, 2), stride=[2, 1, 1]),
   S(X(1, 2, 2, 9, 8), X(3, 2, 2, 4, 4), X(3), stride=[2, 4, 4]), S(X(1, 4, 4, 2, 3), X(4, 2, 2, 1, 1), groups=2, stride=[2, 1, 1]))
op("Conv3D", activated(F.conv3d), CONV, *[S(X(1, 2, 3, 3, 3, **SMALL), X(2, 2, 2, 2, 2, lo=-0.5, hi=0.5), X(2, **SMALL), activation=a) for a in ("relu", "gelu", "tanh")])
op("ConvTranspose3D", pairs(F.conv_transpose3d), CONV, S(X(2, 3, 2, 3, 2), X(3, 2, 2, 3, 2), X(2)), S(X(1, 2, 3, 2, 3), X(2, 3, 3, 3, 3), stride=2, padding=1, output_padding=1),
   S(X(1, 4, 2, 3, 3), X(4, 2, 2, 2, 2), X(4), groups=2), S(X(1, 2, 3, 2, 4), X(2, 1, 2, 2, 3), dilation=2), S(X(2, 3, 2, 3), X(2, 1, 3, 2, 3), X(1), stride=[2, 1, 2]),
   S(X(1, 2, 2, 2, 2), X(2, 3, 2, 2, 2), X(3), stride=2), S(X(1, 4, 2, 2, 2), X(4, 1, 2, 1, 1), groups=2, stride=[2, 1, 1]), S(X(1, 2, 3, 2, 2), X(2, 2, 1, 1, 1), stride=[2, 1, 1], output_padding=[1, 0, 0]))
op("MaxPool3D", pooling(F.max_pool3d), CONV, S(X(2, 2, 4, 3, 4, **D), window=2), S(X(1, 2, 4, 5, 4, **D), window=3, stride=2, padding=1), S(X(2, 3, 4, 3, **D), window=[2, 1, 3], stride=1),
   S(X(1, 1, 5, 6, 5, **D), window=2, dilation=2, stride=2), S(X(1, 2, 3, 5, 4, **D), window=2, ceil=True), S(L([1.0] * 8, (1, 1, 2, 2, 2)), window=2, smooth=False), S(X(1, 2, 3, 4, 2, **D), window=[1, 2, 2]), S(X(0, 2, 2, 2, 2), window=2))
op("MaxPool3DWithPositions", pooling(lambda *a: F.max_pool3d(*a, return_indices=True)), CONV, S(X(2, 2, 4, 3, 4, **D), window=2), S(X(1, 2, 4, 5, 4, **D), window=3, stride=2, padding=1), S(X(2, 3, 4, 3, **D), window=[2, 1, 3], stride=1),
   S(X(1, 1, 5, 6, 5, **D), window=2, dilation=2, stride=2), S(X(1, 2, 3, 5, 4, **D), window=2, ceil=True), S(L([1.0] * 8, (1, 1, 2, 2, 2)), window=2, smooth=False))
op("AvgPool3D", pooling(F.avg_pool3d, True), CONV, S(X(2, 2, 4, 3, 4), window=2), S(X(1, 2, 4, 5, 4), window=3, stride=2, padding=1), S(X(1, 2, 4, 5, 4), window=3, stride=2, padding=1, exclude=True),
   S(X(2, 3, 4, 3), window=[2, 1, 3], stride=1), S(X(1, 2, 3, 5, 4), window=2, ceil=True), S(X(1, 2, 4, 5, 5), window=3, stride=2, padding=1, ceil=True), S(X(1, 1, 4, 5, 6), window=[3, 2, 2], stride=[3, 1, 2], ceil=True, exclude=True))
op("AdaptiveAvgPool3D", lambda x, size: F.adaptive_avg_pool3d(x, size), CONV, S(X(2, 2, 4, 4, 2), size=2), S(X(1, 2, 5, 7, 3), size=[3, 2, 2]), S(X(2, 5, 4, 3), size=1), S(X(1, 1, 3, 2, 3), size=[5, 3, 4]))
op("AdaptiveMaxPool3D", lambda x, size: F.adaptive_max_pool3d(x, size), CONV, S(X(2, 2, 4, 4, 2, **D), size=2), S(X(1, 1, 5, 6, 3, **D), size=[3, 2, 2]), S(X(2, 4, 3, 3, **D), size=1))

# ---- sampling at given places -------------------------------------------

G = dict(lo=-1.5, hi=1.5)


def grid_sample(x, grid, mode="bilinear", padding="zeros", corners=False):
    return F.grid_sample(x, grid, mode, "reflection" if padding == "reflect" else padding, corners)


for padding in "zeros", "border", "reflect":
    for corners in False, True:
        for mode in "bilinear", "nearest":
            op("GridSample", grid_sample, CONV, S(X(2, 2, 4, 5), X(2, 3, 2, 2, **G), mode=mode, padding=padding, corners=corners), S(X(1, 2, 3, 4, 3), X(1, 2, 2, 3, 3, **G), mode=mode, padding=padding, corners=corners),
               S(X(1, 1, 3, 1), X(1, 4, 2, 2, lo=-4, hi=4), mode=mode, padding=padding, corners=corners))
op("GridSample", grid_sample, CONV, S(X(0, 2, 3, 3), X(0, 2, 2, 2)), S(X(2, 0, 3, 3), X(2, 2, 2, 2)), S(X(1, 2, 3, 3), X(1, 0, 2, 2)), S(X(1, 3, 1, 1), X(1, 2, 3, 2)),
   S(X(1, 1, 3, 3), L([[[[-1e30, 0.0], [1e30, 0.0]]]]), grad=False, only=BOTH), S(X(1, 1, 3, 3), L([[[[-1e30, 0.25], [1e6, 0.25]]]]), padding="border", grad=False, only=BOTH))
op("AffineGrid", lambda t, size, corners=False: F.affine_grid(t, [t.shape[0], 1] + list(size), corners), BOTH, *[S(X(2, 2, 3), size=[3, 4], corners=c) for c in (False, True)], *[S(X(1, 3, 4), size=[2, 3, 4], corners=c) for c in (False, True)],
   S(X(1, 2, 3), size=[1, 2], corners=True))

# ---- unaligned sequences ------------------------------------------------


def ctc(x, t, *lengths, blank=0, zero=False, reduction="mean"):
    """With the derivative by x as its gradient. PyTorch's is that behind a softmax: it has
    the exponentials of all x more."""
    logp = x.double()  # in float32 what is taken away would leave few digits
    one = logp.dim() == 2
    if one:
        logp, t = logp.unsqueeze(1), t.unsqueeze(0)
    n = logp.shape[1]
    steps, labels = (l.long().reshape(n) for l in lengths) if lengths else (torch.full((n,), logp.shape[0]), torch.full((n,), t.shape[-1]))
    loss = F.ctc_loss(logp, t.long(), steps, labels, blank, "none", zero)
    more = (logp.exp() * (torch.arange(logp.shape[0])[:, None] < steps)[..., None]).sum((0, 2))
    loss = torch.where(torch.isinf(F.ctc_loss(logp, t.long(), steps, labels, blank, "none")), loss, loss - (more - more.detach()))
    loss = loss.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    if reduction == "mean":
        return (loss / labels.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss[0] if one else loss


for reduction in "mean", "sum", "none":
    op("CTCLoss", ctc, CONV, S(X(5, 2, 4), given("int64", [[1, 2], [3, 3]]), given("int64", [5, 4]), given("int64", [2, 2]), reduction=reduction),
       S(X(6, 3, 4), given("int32", [[1, 0, 1], [2, 0, 0], [0, 0, 2]]), given("int32", [6, 4, 5]), given("int32", [3, 1, 2]), blank=3, reduction=reduction),
       S(X(5, 2, 4), given("int64", [1, 2, 3, 1]), given("int64", [5, 3]), given("int64", [2, 2]), reduction=reduction), S(X(4, 3), given("int64", [1, 2]), given("int64", 4), given("int64", 2), reduction=reduction),
       S(X(3, 2, 4), given("int64", [[1, 1], [2, 3]]), given("int64", [2, 3]), given("int64", [2, 2]), zero=True, reduction=reduction), S(X(4, 1, 3), given("int64", [[1, 1, 1]]), given("int64", [4]), given("int64", [0]), reduction=reduction),
       S(X(4, 2, 5), given("int64", [[1, 4], [2, 2]]), reduction=reduction))
op("CTCLoss", ctc, BOTH, S(X(3, 2, 4), given("int64", [[1, 1], [2, 3]]), given("int64", [2, 1]), given("int64", [2, 2]), reduction="none", grad=False),
   S(X(40, 2, 6), given("int64", [[1, 2, 2, 5, 1, 3, 4, 4], [5, 4, 3, 2, 1, 1, 2, 3]]), given("int64", [40, 31]), given("int64", [8, 5])))
