// What the kernels of convolutions share: their parameters. Convolutions are matrix
// products whose operands are read in place: no image is unfolded in memory.
// With the layouts of internal/op/conv.go, per group:
//
//	forward  (m: output channel)  × (n: image, y, x)    over k: channel, ky, kx
//	input    (m: input channel)   × (n: image, y, x)    over k: output channel, ky, kx
//	weight   (m: output channel)  × (n: channel, ky, kx) over k: image, y, x
#pragma once
#include "locus.cuh"

struct Div { u32 d, mul, shr; };
DEV u32 quotient(u32 x, const Div& v) { return quotient(x, v.mul, v.shr); }

struct Conv {
  const void *x, *w, *g; // input, weight and gradient, those that the op has
  void *out, *partial;   // partial: sums [splits][results] if k is split
  i64 xs[4], gs[4];
  i32 m, n, k, chunk, splits, total; // total: results of all groups
  i32 cin, cout;      // channels of a group
  i32 channels, outputs; // of all groups
  i32 h, wd, oh, ow;
  i32 stride[2], pad[2], dilation[2];
  i32 phases[2];             // gradient of the input: the number of phases that n divides each axis into
  Div taps, kw, pixels, row; // KH·KW, KW; pixels of an image and of a row that n (weight: k) counts
  Div strideY, strideX;
  i32 wide, unused; // whether several elements of the weight may be loaded at once
};
