//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.Attend] = (*Device).runAttention
}

// attentionParams is Attention of kernels/attention.cuh.
type attentionParams struct {
	out, q, k, v, mask, saved, again uintptr
	scale                            float64
	rows, keys, depth, width         int32
	causal, maskKind                 int32
	batches                          uint64
	wide, heads, parts, _            int32
	qs, ks, vs, ms                   [2]int64
	batch, maskBatch                 idx
}

// lastStrides returns the strides of the last two axes.
func lastStrides(x *backend.View) [2]int64 {
	r := len(x.Strides)
	return [2]int64{int64(x.Strides[r-2]), int64(x.Strides[r-1])}
}

// newAttention describes q, k, v and perhaps a mask to the kernels.
func newAttention(a op.Attention, in []backend.View) attentionParams {
	q, k, v := &in[0], &in[1], &in[2]
	r := len(q.Shape)
	axes := rangeOf(0, r-2)
	p := attentionParams{q: addr(q), k: addr(k), v: addr(v), scale: a.Scale,
		rows: int32(q.Shape[r-2]), keys: int32(k.Shape[r-2]), depth: int32(q.Shape[r-1]), width: int32(v.Shape[r-1]),
		batches: uint64(sizeOf(q.Shape, axes)), batch: indexAxes(axes, q, k, v),
		qs: lastStrides(q), ks: lastStrides(k), vs: lastStrides(v), heads: 1, parts: 1}
	if a.Rows {
		p.heads = int32(q.Shape[r-3])
	}
	if a.Causal {
		p.causal = 1
	}
	if len(in) == 4 {
		m := &in[3]
		p.mask, p.ms, p.maskKind, p.maskBatch = addr(m), lastStrides(m), 1, indexAxes(axes, m)
		if m.DType == dtype.Bool {
			p.maskKind = 2
		}
	}
	return p
}

// masked is the part of a kernel's name that says whether it handles masks.
func (p *attentionParams) masked() string {
	if p.maskKind != 0 {
		return "masked_"
	}
	return ""
}

// headWidth is the width of the tiles: the least of widths, for which there are
// kernels, that fits a head.
func (p *attentionParams) headWidth(widths ...int) int {
	for _, w := range widths {
		if int(max(p.depth, p.width)) <= w {
			return w
		}
	}
	return 0
}

func (d *Device) runAttention(c *backend.Call) error {
	t := c.Out.DType
	p := newAttention(c.Attrs.(op.Attention), c.In)
	p.out = c.Out.Block.Addr
	if len(c.More) > 0 {
		p.saved = c.More[0].Block.Addr
	}
	if done, err := d.dnnAttend(c, &p); done || err != nil {
		return err
	}
	suffix := p.masked() + typeName(t)
	switch {
	case d.canAttendWGMMA(&p, t):
		w, groups := p.headWidth(64, 128), 2
		if w == 64 && p.maskKind == 0 && ceil(int(p.rows), 192)*int(p.batches) >= 2*d.card.sms {
			groups = 3
		}
		const keys = 128 // BK of the kernels
		shared := (groups*64+4*keys)*w*2 + 1024
		blocks := min(ceil(int(p.rows), groups*64)*int(p.batches), d.card.sms)
		return runKernel(d, "attention_sm90", fmt.Sprintf("attention_wgmma%d_%d_%s", w, groups, suffix), &p, grid{x: blocks, threads: groups*128 + 128, shared: shared})
	case d.canAttendMMA(&p, t):
		w := p.headWidth(32, 64, 96, 128)
		if p.maskKind != 0 {
			w = p.headWidth(64, 128)
		}
		shared := (128 + 4*64) * w * 2 // q, and two stages of k and v
		return runKernel(d, "attention_sm80", fmt.Sprintf("attention_mma%d_%s", w, suffix), &p,
			grid{x: ceil(int(p.rows), 128), y: min(int(p.batches), 65535), threads: 128, shared: shared})
	}
	p.readWide(t)
	if d.canAttendSplit(&p, t) {
		return d.attentionSplit(&p)
	}
	return d.attentionSIMT(&p, t, int(p.batches))
}

// attentionSIMT takes so many matrices at a time.
func (d *Device) attentionSIMT(p *attentionParams, t dtype.DType, batches int) error {
	s := d.simtFor(t)
	return runKernel(d, "attention", "attention_"+s.forward+typeName(t), p,
		grid{x: ceil(int(p.rows), s.queries), y: min(batches, 65535), z: ceil(int(p.width), s.columns), threads: 256, shared: s.shared(t, s.queries, s.keys, 1, 2, 1)})
}

// canAttendMMA reports whether the tensor cores can do it: they read 16 bytes
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

// canAttendWGMMA reports whether Hopper's tensor cores should do it. Their
// kernels look for the largest product, which is the largest score only if the scale is positive.
func (d *Device) canAttendWGMMA(p *attentionParams, t dtype.DType) bool {
	return d.card.major == 9 && d.card.minor == 0 && d.card.drv.version >= 12000 && !d.trial.older && p.scale > 0 && p.keys > 0 &&
		ceil(int(p.rows), 128)*int(p.batches) < 1<<31 && d.canAttendMMA(p, t)
}

// simt says how kernels/attention.cu divides the work.
type simt struct {
	forward, size string // parts of the kernels' names: forward, for gradients
	queries, keys int    // of a block, forward
	own, stream   int    // rows that a block owns, and of a step, for gradients
	columns       int    // of the result
}

// simtFor chooses among the kernels by type, and by how much shared memory there is.
func (d *Device) simtFor(t dtype.DType) simt {
	if t == dtype.Float64 {
		return simt{"small_", "small_", 32, 32, 32, 32, 32}
	}
	if t == dtype.Float32 {
		for _, s := range []simt{{"large_", "", 128, 128, 64, 64, 64}, {"", "", 128, 64, 64, 64, 64}} {
			if d.card.sharedMax >= max(s.shared(t, s.queries, s.keys, 1, 2, 1), s.shared(t, s.own, s.stream, 2, 2, 2)) {
				return s
			}
		}
	}
	return simt{"small_", "small_", 32, 32, 32, 32, 64}
}

// shared is the memory of a block that owns rows of x matrices, with steps of y
// others, and that many tables of weights.
func (s simt) shared(t dtype.DType, own, stream, x, y, weights int) int {
	size := max(4, t.Size())
	pad := 16 / size
	return size * ((x*own+y*stream)*(s.columns+pad) + weights*own*(stream+pad))
}

// readWide notes which of q, k and v may be read four elements at a time.
func (p *attentionParams) readWide(t dtype.DType) {
	for i, x := range []struct {
		addr    uintptr
		strides [2]int64
	}{{p.q, p.qs}, {p.k, p.ks}, {p.v, p.vs}} {
		if x.addr%uintptr(4*t.Size()) == 0 && x.strides[1] == 1 && x.strides[0]%4 == 0 && p.batch.together(4) {
			p.wide |= 1 << i
		}
	}
}
