//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// pixelParams is Pixels of kernels/normalize_pixels.cu.
type pixelParams struct {
	out, g, x, weight, bias, res        uintptr
	mean, rstd, batchMean, variance     uintptr
	oldMean, oldVariance                uintptr
	oldSteps                            [2]int64
	momentum                            float64
	gradWeight, gradBias, partial, sums uintptr
	arrived                             uintptr
	rows, chunk                         uint64
	eps                                 float64
	xs, gs, rs, ws, bs                  int64
	channels, chunks, wide, act         int32
}

// pixelThreads is PIXEL_THREADS.
const pixelThreads = 512

// manyPixels is how many bytes are read where sums of more chunks pay. On an H200, of
// 128×128×12×12 float32 sums take 15 µs with 231 chunks and 12 with 128, and their gradient's
// 13 and 10; of 128×96×24×24 the gradient's, 57 MB, take 26 with 256 and 30 with 132.
const manyPixels = 32 << 20

// pixelStep reports whether the pixels of an image (N, C, H, W) follow each other at one
// distance, the channels of each beside each other, and at which.
func pixelStep(v *backend.View) (step int, ok bool) {
	if v.Shape[1] > 1 && v.Strides[1] != 1 {
		return 0, false
	}
	turned := backend.View{Shape: []int{v.Shape[0], v.Shape[2], v.Shape[3], 1}, Strides: []int{v.Strides[0], v.Strides[2], v.Strides[3], 1}}
	return turned.RowStep()
}

// normPixels queues a batch normalization or its gradient, which p describes, of images
// that lie channels last. It reports false where its kernels cannot do it.
func (d *Device) normPixels(c *backend.Call, p *normParams, g, x, weight, bias *backend.View, end op.NormEpilogue) (bool, error) {
	if len(x.Shape) != 4 || !c.Out.ChannelsLast() {
		return false, nil
	}
	t, channels := c.Out.DType, x.Shape[1]
	q := pixelParams{out: p.out, g: p.g, x: p.x, weight: p.weight, bias: p.bias, mean: p.mean, rstd: p.rstd, batchMean: p.batchMean, variance: p.variance,
		oldMean: p.oldMean, oldVariance: p.oldVariance, oldSteps: p.oldSteps, momentum: p.momentum, gradWeight: p.gradWeight, gradBias: p.gradBias,
		rows: uint64(x.Elements() / channels), eps: p.eps, channels: int32(channels)}
	xs, ok := pixelStep(x)
	gs, fine := pixelStep(g)
	if !ok || !fine {
		return false, nil
	}
	q.xs, q.gs = int64(xs), int64(gs)
	if weight != nil {
		q.ws = int64(weight.Strides[0])
	}
	if bias != nil {
		q.bs = int64(bias.Strides[0])
	}
	q.act = map[op.ID]int32{op.Relu: 1, op.Relu6: 2}[end.Act]
	if end.Add {
		res := &c.In[len(c.In)-1]
		rs, ok := pixelStep(res)
		if !ok {
			return false, nil
		}
		q.res, q.rs = addr(res), int64(rs)
	}
	return d.queuePixels(&q, t, c.Op == op.BatchNormGrad)
}

// queuePixels chooses the kernels' shape and queues them.
func (d *Device) queuePixels(q *pixelParams, t dtype.DType, grad bool) (bool, error) {
	channels, rows, n := int(q.channels), int(q.rows), lanes(t)
	stem, suffix := "pixels_", "_wide_"+typeName(t)
	if grad {
		stem = "pixels_grad_"
	}
	if (channels|int(q.xs)|int(q.gs)|int(q.rs))%n != 0 || (q.x|q.g|q.out|q.res)%16 != 0 {
		n, suffix = 1, "_"+typeName(t)
	}
	q.wide = 1
	for q.wide < 32 && int(q.wide)*n < channels {
		q.wide *= 2
	}
	columns := ceil(channels, int(q.wide)*n)
	if columns > maxCounters {
		return false, nil
	}
	down := pixelThreads / int(q.wide)
	// A chunk is some rows for each thread. Two blocks share a multiprocessor, but not of the
	// kernels for half precision, which need more registers. The last block merges the sums
	// of all chunks: fewer where that would take longer than to make them.
	divide := func(blocks int) grid {
		chunks := max(1, min(ceil(blocks, columns), ceil(rows, 4*down), 65535))
		q.chunk = uint64(ceil(ceil(rows, chunks), down) * down)
		q.chunks = int32(ceil(rows, int(q.chunk)))
		return grid{x: columns, y: int(q.chunks), threads: pixelThreads}
	}
	size, blocks, summing := max(4, t.Size()), 2*d.card.sms, d.card.sms
	switch read := rows * channels * t.Size(); {
	case t.Size() == 2:
		blocks = d.card.sms
	case read > manyPixels || grad && 2*read > manyPixels:
		summing = blocks
	}
	each := divide(summing)
	work, arrived, err := d.shared((int(q.chunks)+1)*channels*2*size, columns)
	if d.refused(err) && q.act == 0 && q.res == 0 {
		return false, nil // the other kernels need none
	}
	if err != nil {
		return false, err
	}
	q.sums, q.partial, q.arrived = work, work+uintptr(channels*2*size), arrived
	if err := runKernel(d, "normalize_pixels", stem+"sums"+suffix, q, each); err != nil {
		return false, err
	}
	return true, runKernel(d, "normalize_pixels", stem+"apply"+suffix, q, divide(blocks))
}
