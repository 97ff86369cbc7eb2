//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Normalized, op.NormalizeGrad, op.BatchNorm, op.BatchNormGrad} {
		runners[id] = (*Device).runNorm
	}
}

// The parameters of kernels/normalize.cu.
type (
	normParams struct {
		out, g, x, weight, bias, mean, rstd          uintptr
		batchMean, variance                          uintptr
		oldMean, oldVariance                         uintptr
		oldSteps                                     [2]int64
		momentum                                     float64
		gradWeight, gradBias, partial, sums, arrived uintptr
		rows, length, chunk                          uint64
		eps                                          float64
		chunks, rms, mode, _                         int32
		kept, red, wkept, wred                       idx
	}
	normGradParams struct {
		g, x, mean, rstd, gradWeight, gradBias uintptr
		partial, arrived                       uintptr
		params, length, chunk                  uint64
		splits, _                              int32
		kept, red                              idx
	}
)

// The modes of normalize.cu: how weight and bias belong to the elements of a row.
const (
	oneForARow = iota
	contiguousParams
	scatteredParams
)

// normThreads is the largest number of threads of a block of its kernels.
const normThreads = 512

func (d *Device) runNorm(c *backend.Call) error {
	a, plain := c.Attrs.(op.Normalize)
	var end op.NormEpilogue
	if !plain {
		end = c.Attrs.(op.NormEpilogue)
		a = end.Normalize
	}
	t := c.Out.DType
	batch := c.Op == op.BatchNorm || c.Op == op.BatchNormGrad
	grad := c.Op == op.NormalizeGrad || c.Op == op.BatchNormGrad
	in, more := c.In, c.More
	operand := func() *backend.View { v := &in[0]; in = in[1:]; return v }
	result := func() uintptr { v := &more[0]; more = more[1:]; return addr(v) }

	p := normParams{out: c.Out.Block.Addr, eps: a.Eps, chunks: 1}
	g := operand()
	x := g
	if grad {
		x = operand()
	}
	rank := len(x.Shape)
	over, first, last := op.AxisSet(0), a.Params[0], a.Params[1] // axes of the statistics; those of the parameters
	for i := range rank {
		if batch && i != 1 || !batch && i >= a.From {
			over |= op.AxesOf(i)
		}
	}
	if batch {
		first, last = 1, 2
	}
	var weight, bias *backend.View
	if a.Weight {
		weight = operand()
		p.weight = addr(weight)
	}
	if a.Bias && (!grad || !plain) {
		bias = operand()
		p.bias = addr(bias)
	}
	if a.Running {
		mean, variance := operand(), operand()
		p.oldMean, p.oldVariance, p.momentum = addr(mean), addr(variance), a.Momentum
		p.oldSteps = [2]int64{int64(mean.Strides[0]), int64(variance.Strides[0])}
	}
	var gradWeight, gradBias uintptr
	switch {
	case grad:
		if !a.RMS {
			p.mean = addr(operand())
		}
		p.rstd = addr(operand())
		if a.GradWeight {
			gradWeight = result()
		}
		if a.GradBias {
			gradBias = result()
		}
		if batch {
			p.gradWeight, p.gradBias = gradWeight, gradBias
		}
	case len(more) > 0:
		if !a.RMS {
			p.mean = result()
		}
		p.rstd = result()
		if batch {
			p.batchMean = result()
			p.variance = result()
		}
	}
	if a.RMS {
		p.rms = 1
	}
	p.x, p.g = addr(x), addr(g)
	if batch {
		done, err := d.normPixels(c, &p, g, x, weight, bias, end)
		if done || err != nil {
			return err
		}
		if !plain {
			return fmt.Errorf("%s with an end: %w", c.Op, op.ErrUnsupported)
		}
	}
	red, kept := splitAxes(rank, over)
	p.kept, p.red = indexAxes(kept, x, g, &c.Out), indexAxes(red, x, g, &c.Out)
	w, b := spread(weight, x.Shape, first), spread(bias, x.Shape, first)
	p.wkept, p.wred = indexAxes(kept, &w, &b), indexAxes(red, &w, &b)
	rows, n, v := sizeOf(x.Shape, kept), sizeOf(x.Shape, red), lanes(t)
	p.rows, p.length = uint64(rows), uint64(n)
	if err := d.normRows(&p, t, grad, p.wide(v)); err != nil {
		return err
	}
	if batch || gradWeight|gradBias == 0 {
		return nil
	}
	return d.normParams(&p, t, g, x, a, first, last, gradWeight, gradBias)
}

// spread returns a parameter, which may be missing, as a view of x's shape: its axes
// are x's axes from first on.
func spread(param *backend.View, shape []int, first int) backend.View {
	v := backend.View{Shape: shape, Strides: make([]int, len(shape))}
	if param != nil {
		copy(v.Strides[first:], param.Strides)
	}
	return v
}

// wide chooses the mode and reports whether v elements of a row can be loaded at once,
// wherever it begins, and their parameters with them.
func (p *normParams) wide(v int) bool {
	r, w := &p.red, &p.wred
	flat, line := true, w.nd == 1 // the same for all of a row; one after the other
	still := w.nd > 0 && int(w.size[0])%v == 0
	for k, at := range []uintptr{p.weight, p.bias} {
		for i := range w.nd {
			flat = flat && w.stride[k][i] == 0
		}
		if at != 0 && w.nd > 0 {
			line = line && w.stride[k][0] == 1
			still = still && w.stride[k][0] == 0
		}
	}
	together := true
	switch {
	case flat:
		p.mode = oneForARow
	case line:
		p.mode = contiguousParams
		together = p.wkept.together(v) && (p.weight|p.bias)%16 == 0
	default:
		p.mode, together = scatteredParams, still
	}
	if !together || r.nd == 0 || int(r.size[0])%v != 0 || !p.kept.together(v) || (p.x|p.g|p.out)%16 != 0 {
		return false
	}
	for k := range r.stride {
		if r.stride[k][0] != 1 {
			return false
		}
		for i := int32(1); i < r.nd; i++ {
			if r.stride[k][i]%int64(v) != 0 {
				return false
			}
		}
	}
	return true
}

// normRows queues the kernels that make a value for every element.
func (d *Device) normRows(p *normParams, t dtype.DType, grad, wide bool) error {
	rows, n, v, keep := int(p.rows), int(p.length), 1, held
	stem, suffix := "norm_", "_"+typeName(t)
	if grad {
		stem, keep = "norm_grad_", keep/2
	}
	if wide {
		v = lanes(t)
		if p.red.nd == 1 && n <= 32*v*held {
			return runKernel(d, "normalize", stem+"held_warp"+suffix, p, grid{x: ceil(rows, 4), threads: 128})
		}
		if p.red.nd == 1 && n <= normThreads*v*keep {
			return runKernel(d, "normalize", stem+"held"+suffix, p, grid{x: rows, threads: threadsFor(n, v*keep)})
		}
		suffix = "_wide" + suffix
	}
	threads := func(n int) int { return min(normThreads, threadsFor(n, 4*v)) }
	// One launch, where that fills most of the card or has little to do.
	if rows < 2*d.card.sms && n > 8192 && (2*rows < d.card.sms || n > 32768) {
		chunk := ceil(ceil(n, max(1, min(ceil(4*d.card.sms, rows), n/4096, 1024))), v) * v
		chunks, size := ceil(n, chunk), max(4, t.Size())
		work, arrived, err := d.shared(rows*(chunks*2+2)*size, rows)
		if err == nil {
			p.chunk, p.chunks = uint64(chunk), int32(chunks)
			p.sums, p.partial, p.arrived = work, work+uintptr(rows*2*size), arrived
			each := grid{x: rows, y: chunks, threads: threads(chunk)}
			if err := runKernel(d, "normalize", stem+"sums"+suffix, p, each); err != nil {
				return err
			}
			return runKernel(d, "normalize", stem+"apply"+suffix, p, each)
		}
		if !d.refused(err) {
			return err
		}
	}
	return runKernel(d, "normalize", stem+"whole"+suffix, p, grid{x: rows, threads: threads(n)})
}

// rowsOf reports whether every element of a row belongs to a parameter of its own, in
// order, v of them can be loaded at once, and each row has one statistic.
func (q *normGradParams) rowsOf(v int) bool {
	k, r := &q.kept, &q.red
	if k.nd != 1 || r.nd != 1 || int(q.params)%v != 0 || (q.g|q.x)%16 != 0 || r.stride[2][0] != 1 || k.stride[2][0] != 0 {
		return false
	}
	for i := range 2 {
		if k.stride[i][0] != 1 || r.stride[i][0]%int64(v) != 0 {
			return false
		}
	}
	return true
}

// shared returns a workspace and counters for results that several blocks share.
func (d *Device) shared(size, results int) (work, arrived uintptr, err error) {
	if work, err = d.workspace(size); err != nil {
		return 0, 0, err
	}
	var none reduceParams
	arrived, err = d.counters(&none, results)
	return work, arrived, err
}

// normParams queues the gradients of weight and bias, which have the axes first to
// last-1 of x.
func (d *Device) normParams(p *normParams, t dtype.DType, g, x *backend.View, a op.Normalize, first, last int, gradWeight, gradBias uintptr) error {
	stats := backend.View{Shape: x.Shape, Strides: make([]int, len(x.Shape))}
	copy(stats.Strides, op.Strides(x.Shape[:a.From]))
	axes := op.AxisSet(0)
	for i := first; i < last; i++ {
		axes |= op.AxesOf(i)
	}
	own, others := splitAxes(len(x.Shape), axes)
	q := normGradParams{g: p.g, x: p.x, mean: p.mean, rstd: p.rstd, gradWeight: gradWeight, gradBias: gradBias,
		kept: indexAxes(own, g, x, &stats), red: indexAxes(others, g, x, &stats)}
	params, n := sizeOf(x.Shape, own), sizeOf(x.Shape, others)
	q.params, q.length = uint64(params), uint64(n)
	name, blocks, least := "norm_params_row_", params, 2048
	if k := &q.kept; k.nd > 0 && k.stride[1][0] == 1 { // neighbors belong to different parameters
		name, blocks, least = "norm_params_tile_", ceil(params, 32), 64
	}
	if v := lanes(t); q.rowsOf(v) {
		name, blocks, least = "norm_params_wide_", ceil(params, 32*v), 32
	}
	chunk := ceil(n, max(1, min(ceil(4*d.card.sms, blocks), n/least, 1024)))
	q.chunk, q.splits = uint64(chunk), int32(ceil(n, chunk))
	if q.splits > 1 {
		var err error
		q.partial, q.arrived, err = d.shared(int(q.splits)*params*2*max(4, t.Size()), blocks)
		if d.refused(err) {
			q.splits, q.chunk, err = 1, q.length, nil // slower, without
		}
		if err != nil {
			return err
		}
	}
	return runKernel(d, "normalize", name+typeName(t), &q, grid{x: blocks, y: int(q.splits), threads: blockThreads})
}
