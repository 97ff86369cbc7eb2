//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	for _, id := range []op.ID{op.Softmax, op.SoftmaxGrad, op.LogSoftmax, op.LogSoftmaxGrad} {
		runners[id] = (*Device).runSoftmax
	}
	runners[op.Normalized] = (*Device).runNormalize
	runners[op.NormalizeGrad] = (*Device).runNormalize
	runners[op.Attend] = (*Device).runAttention
}

// The parameters of kernels/softmax.cu, normalize.cu and attention.cu.
type (
	linesParams struct {
		out, a, b             uintptr
		lines, length         uint64
		stepA, stepB, stepOut int64
		line                  idx
	}
	normalizeParams struct {
		out, g, x, partial, stats uintptr
		groups, length, chunk     uint64
		eps                       float64
		chunks, second            int32
		kept, red                 idx
	}
	attentionParams struct {
		out, q, k, v, mask       uintptr
		scale                    float64
		rows, keys, depth, width int32
		causal, maskKind         int32
		batches                  uint64
		wide, _                  int32
		qs, ks, vs, ms           [2]int64
		batch, maskBatch         idx
	}
)

// held is the number of vectors a thread keeps in registers: HELD of the kernels.
const held = 8

func (d *Device) runSoftmax(c *backend.Call) error {
	axis, t := c.Attrs.(op.Axis).Axis, c.Out.DType
	a, b := &c.In[0], &c.In[len(c.In)-1]
	p := linesParams{out: c.Out.Block.Addr, a: addr(a), b: addr(b), length: uint64(a.Shape[axis]),
		stepA: int64(a.Strides[axis]), stepB: int64(b.Strides[axis]), stepOut: int64(c.Out.Strides[axis])}
	lines := 1
	for i := len(a.Shape) - 1; i >= 0; i-- {
		if i != axis {
			p.line.axis(a.Shape[i], [3]int{a.Strides[i], b.Strides[i], c.Out.Strides[i]})
			lines *= a.Shape[i]
		}
	}
	p.line.close(lines)
	p.lines = uint64(lines)
	n, v := a.Shape[axis], lanes(t)
	keep := held
	if len(c.In) == 2 {
		keep /= 2
	}
	wide := n%v == 0 && p.line.together(v) && p.stepA == 1 && p.stepB == 1 && p.stepOut == 1 && (p.a|p.b|p.out)%16 == 0
	stem, suffix := c.Op.String(), "_"+typeName(t)
	switch {
	case wide && n <= 32*v*keep:
		return runKernel(d, "softmax", stem+"_held_warp"+suffix, &p, ceil(lines, 4), 1, 1, 128, 0)
	case wide && n <= 1024*v*keep:
		return runKernel(d, "softmax", stem+"_held_block"+suffix, &p, lines, 1, 1, threadsFor(n, v*keep), 0)
	case p.stepOut != 1 && lines >= 32:
		return runKernel(d, "softmax", stem+"_thread"+suffix, &p, ceil(lines, 128), 1, 1, 128, 0)
	case n <= 1024:
		return runKernel(d, "softmax", stem+"_warp"+suffix, &p, ceil(lines, 4), 1, 1, 128, 0)
	}
	return runKernel(d, "softmax", stem+"_block"+suffix, &p, lines, 1, 1, 512, 0)
}

// together reports whether lines of contiguous vectors of v elements start
// aligned for every operand.
func (x *idx) together(v int) bool {
	for k := range x.stride {
		for i := range x.nd {
			if x.stride[k][i]%int64(v) != 0 {
				return false
			}
		}
	}
	return true
}

// threadsFor gives a number of threads of which each takes about per elements of n.
func threadsFor(n, per int) int {
	t := 64
	for t < 1024 && t*per < n {
		t *= 2
	}
	return t
}

func (d *Device) runNormalize(c *backend.Call) error {
	a, t := c.Attrs.(op.Normalize), c.Out.DType
	grad := c.Op == op.NormalizeGrad
	x, g := &c.In[0], &c.In[0]
	keep := held
	if grad {
		x = &c.In[1]
		keep /= 2
	}
	red, kept := splitAxes(len(x.Shape), a.Axes)
	p := normalizeParams{out: c.Out.Block.Addr, x: addr(x), g: addr(g), eps: a.Eps, chunks: 1,
		kept: indexAxes(kept, x, g, &c.Out), red: indexAxes(red, x, g, &c.Out)}
	groups, n, v := sizeOf(x.Shape, kept), sizeOf(x.Shape, red), lanes(t)
	p.groups, p.length = uint64(groups), uint64(n)
	suffix, stem := "_"+typeName(t), c.Op.String()
	r := &p.red
	line := r.nd == 1 && r.stride[0][0] == 1 && r.stride[1][0] == 1 && r.stride[2][0] == 1
	if line && n%v == 0 && n <= 1024*v*keep && p.kept.together(v) && (p.x|p.g|p.out)%16 == 0 {
		return runKernel(d, "normalize", stem+"_held"+suffix, &p, groups, 1, 1, threadsFor(n, v*keep), 0)
	}
	// Chunks of one group share its statistics.
	chunks := max(1, min(ceil(d.card.sms*8, groups), n/2048, 1024))
	p.chunk = uint64(ceil(n, chunks))
	p.chunks = int32(ceil(n, int(p.chunk)))
	size := max(4, t.Size())
	work, err := d.workspace(groups * (int(p.chunks)*2 + 4) * size)
	if err != nil {
		return err
	}
	p.stats, p.partial = work, work+uintptr(groups*4*size)
	threads := threadsFor(int(p.chunk), 4)
	for p.second = 0; p.second < 2; p.second++ {
		if p.second == 1 && !grad {
			break
		}
		if err := runKernel(d, "normalize", "normalize_stats"+suffix, &p, groups, int(p.chunks), 1, threads, 0); err != nil {
			return err
		}
		if err := runKernel(d, "normalize", "normalize_merge"+suffix, &p, ceil(groups, 64), 1, 1, 64, 0); err != nil {
			return err
		}
	}
	return runKernel(d, "normalize", stem+"_apply"+suffix, &p, groups, int(p.chunks), 1, threads, 0)
}

func (d *Device) runAttention(c *backend.Call) error {
	a, t := c.Attrs.(op.Attention), c.Out.DType
	q, k, v := &c.In[0], &c.In[1], &c.In[2]
	r := len(q.Shape)
	last := func(x *backend.View) [2]int64 { return [2]int64{int64(x.Strides[r-2]), int64(x.Strides[r-1])} }
	p := attentionParams{out: c.Out.Block.Addr, q: addr(q), k: addr(k), v: addr(v), scale: a.Scale,
		rows: int32(q.Shape[r-2]), keys: int32(k.Shape[r-2]), depth: int32(q.Shape[r-1]), width: int32(v.Shape[r-1]),
		qs: last(q), ks: last(k), vs: last(v)}
	axes := rangeOf(0, r-2)
	p.batch = indexAxes(axes, q, k, v)
	batches := sizeOf(q.Shape, axes)
	p.batches = uint64(batches)
	if a.Causal {
		p.causal = 1
	}
	if len(c.In) == 4 {
		m := &c.In[3]
		p.mask, p.ms, p.maskKind = addr(m), last(m), 1
		if m.DType == dtype.Bool {
			p.maskKind = 2
		}
		p.maskBatch = indexAxes(axes, m)
	}
	if d.canAttendMMA(&p, t) {
		w := 64
		if max(p.depth, p.width) > 64 {
			w = 128
		}
		shared := 5 * 64 * w * 2 // tiles of q, k and v
		return runKernel(d, "attention_sm80", fmt.Sprintf("attention_mma%d_%s", w, typeName(t)), &p, ceil(int(p.rows), 64), min(batches, 65535), 1, 128, shared)
	}
	rows := 64 // BQ of the kernels
	if t == dtype.Float64 {
		rows = 32
	}
	name, width := "attention64_", 64
	if p.width > 64 {
		name, width = "attention128_", 128
	}
	for i, x := range []struct {
		addr    uintptr
		strides [2]int64
	}{{p.q, p.qs}, {p.k, p.ks}} {
		if x.addr%uintptr(4*t.Size()) == 0 && x.strides[1] == 1 && x.strides[0]%4 == 0 && p.batch.together(4) {
			p.wide |= 1 << i
		}
	}
	shared := 4 * (2*64*68 + 64*68) // Room of the kernels: q and k (or v), and the scores
	if t == dtype.Float64 {
		shared = 8 * (max(16*36+16*68, 16*(width+4)) + 32*68)
	}
	return runKernel(d, "attention", name+typeName(t), &p, ceil(int(p.rows), rows), min(batches, 65535), ceil(int(p.width), width), 256, shared)
}

// canAttendMMA reports whether the matrix units can do it: they read 16 bytes
// at a time, and heads fit into registers.
func (d *Device) canAttendMMA(p *attentionParams, t dtype.DType) bool {
	if d.card.major < 8 || t.Size() != 2 || p.depth > 128 || p.width > 128 || (p.q|p.k|p.v)%16 != 0 {
		return false
	}
	for _, s := range [][2]int64{p.qs, p.ks, p.vs} {
		if s[1] != 1 || s[0]%8 != 0 {
			return false
		}
	}
	return p.batch.together(8)
}
