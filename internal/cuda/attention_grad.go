//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() { runners[op.AttendGrad] = (*Device).runAttentionGrad }

// attentionGradParams is AttentionGrad of kernels/attention.cuh.
type attentionGradParams struct {
	a                 attentionParams
	g, y              uintptr
	dq, dk, dv, stats uintptr
	gs, ys            [2]int64
	gy                idx
	first, last       uint64
	t                 uintptr
	size, pitch       int64
}

// runAttentionGrad makes the statistics of the rows of what was saved, then dq, then
// dk and dv.
func (d *Device) runAttentionGrad(c *backend.Call) error {
	t := c.Out.DType
	in := slices.Concat(c.In[1:4], c.In[6:])
	g, y := &c.In[0], &c.In[4]
	p := attentionGradParams{a: newAttention(c.Attrs.(op.Attention), in), g: addr(g), y: addr(y), gs: lastStrides(g), ys: lastStrides(y),
		gy: indexAxes(rangeOf(0, len(g.Shape)-2), g, y)}
	a, size := &p.a, uintptr(t.Size())
	a.saved = addr(&c.In[5])
	p.dq = c.Out.Block.Addr
	p.dk = p.dq + uintptr(in[0].Elements())*size
	p.dv = p.dk + uintptr(in[1].Elements())*size
	if c.Attrs.(op.Attention).Rows {
		a.parts = 3
		p.dk = p.dq + uintptr(a.heads*a.depth)*size
		p.dv = p.dk + uintptr(a.heads*a.depth)*size
	}
	p.last = a.batches
	if done, err := d.dnnAttendGrad(c, &p); done || err != nil {
		return err
	}
	switch {
	case !d.canAttendMMA(a, t) || p.g%16 != 0 || p.gs[1] != 1 || p.gs[0]%8 != 0 || !p.gy.together(8):
		return d.attentionGradSIMT(&p, t)
	case d.canAttendWGMMA(a, t) && ceil(int(a.keys), 128)*int(a.batches) < 1<<31:
		return d.attentionGradWGMMA(&p, t)
	}
	return d.attentionGradMMA(&p, t)
}

// attentionStats makes the statistics of the rows in the workspace, which has that many
// bytes more behind them; it returns their address.
func (d *Device) attentionStats(p *attentionGradParams, t dtype.DType, more int) (uintptr, error) {
	rows := int(p.a.batches) * int(p.a.rows)
	size := (rows*2*max(4, t.Size()) + 255) &^ 255
	var err error
	if p.stats, err = d.workspace(size + more); err != nil || rows == 0 {
		return 0, err
	}
	return p.stats + uintptr(size), runKernel(d, "attention", "attention_sums_"+typeName(t), p, grid{x: min(ceil(rows, 8), 16*d.card.sms), threads: 256})
}

func (d *Device) attentionGradSIMT(p *attentionGradParams, t dtype.DType) error {
	a := &p.a
	a.readWide(t)
	if p.g%uintptr(4*t.Size()) == 0 && p.gs[1] == 1 && p.gs[0]%4 == 0 && p.gy.together(4) {
		a.wide |= 8
	}
	stored := 0
	if t == dtype.Float32 {
		stored = p.storedScores()
	}
	forKeys, forQueries := 0, 0 // bytes of notes
	split := stored > 0 && d.canAttendGradSplit(a, t)
	if split {
		forKeys, forQueries = a.notes(a.keys), a.notes(a.rows)
	}
	notes := (forKeys + forQueries + 255) &^ 255
	room, err := d.attentionStats(p, t, notes+stored*int(p.size)*4)
	if d.refused(err) && stored > 0 {
		stored = 0
		_, err = d.attentionStats(p, t, 0)
	}
	if err != nil {
		return err
	}
	keys, queries := d.simtFor(t).gradients(a, t)
	if stored == 0 {
		return d.attentionParts(p, queries, keys)
	}
	p.t = room + uintptr(notes)
	if split {
		return d.attentionGradSplit(p, stored, room, room+uintptr(forKeys))
	}
	for ; p.first < a.batches; p.first = p.last {
		p.last = min(p.first+uint64(stored), a.batches)
		if err := d.attentionParts(p, keys, attentionPart{"attention", "attention_dq_stored_f32", int(a.rows), 128, queries.z, 256, 0}); err != nil {
			return err
		}
	}
	return nil
}

// gradients returns the kernels of dk and dv, and of dq.
func (s simt) gradients(a *attentionParams, t dtype.DType) (keys, queries attentionPart) {
	return attentionPart{"attention", "attention_dkv_" + s.size + typeName(t), int(a.keys), s.own, ceil(int(max(a.depth, a.width)), s.columns), 256, s.shared(t, s.own, s.stream, 2, 2, 2)},
		attentionPart{"attention", "attention_dq_" + s.size + typeName(t), int(a.rows), s.own, ceil(int(a.depth), s.columns), 256, s.shared(t, s.own, s.stream, 2, 2, 1)}
}

// storedScores is for how many matrices at a time the gradients of the scores are
// kept between dkv and dq, 0 if for none: with float32, computing them a second time
// takes longer than reading them. A causal attention needs half the room.
func (p *attentionGradParams) storedScores() int {
	rows, keys := (int64(p.a.rows)+63)&^63, (int64(p.a.keys)+63)&^63
	p.pitch, p.size = rows, rows*keys
	if p.a.causal != 0 {
		blocks := min(keys, rows) / 64 // of keys that are seen
		p.size = (blocks*rows - blocks*(blocks-1)/2*64) * 64
	}
	if p.size == 0 {
		return 0
	}
	most := min(int64(p.a.batches), attentionRoom/(4*p.size))
	if most == 0 {
		return 0
	}
	turns := ceil(int(p.a.batches), int(most))
	return ceil(int(p.a.batches), turns) // as many in each turn
}

// attentionRoom is how many bytes the gradients of scores may take, where they are
// kept: a small share of the card's memory.
const attentionRoom = 576 << 20

func (d *Device) attentionGradMMA(p *attentionGradParams, t dtype.DType) error {
	a := &p.a
	w, suffix := a.headWidth(64, 128), a.masked()+typeName(t)
	own, stream := 128, 32 // keys of a block, queries of a stage
	if w == 128 {
		own, stream = 64, 64
	}
	if _, err := d.attentionStats(p, t, 0); err != nil {
		return err
	}
	return d.attentionParts(p,
		attentionPart{"attention_grad_sm80", fmt.Sprintf("attention_dq%d_%s", w, suffix), int(a.rows), 128, 1, 128, (2*128 + 4*32) * w * 2},
		attentionPart{"attention_grad_sm80", fmt.Sprintf("attention_dkv%d_%s", w, suffix), int(a.keys), own, 1, 128, (2*own + 4*stream) * w * 2})
}

func (d *Device) attentionGradWGMMA(p *attentionGradParams, t dtype.DType) error {
	a := &p.a
	w, suffix := a.headWidth(64, 128), a.masked()+typeName(t)
	if _, err := d.attentionStats(p, t, 0); err != nil {
		return err
	}
	shared := 2*128*w*2 + 3*(2*64*w*2+1024) + 1024 // the owned rows, and three stages
	for _, k := range []struct {
		kernel string
		rows   int32
	}{{"dq", a.rows}, {"dkv", a.keys}} {
		if k.rows == 0 {
			continue
		}
		name := fmt.Sprintf("attention_wgmma_%s%d_%s", k.kernel, w, suffix)
		if err := runKernel(d, "attention_grad_sm90", name, p, grid{x: min(ceil(int(k.rows), 128)*int(a.batches), d.card.sms), threads: 384, shared: shared}); err != nil {
			return err
		}
	}
	return nil
}

// attentionPart is a kernel that a gradient needs, with so many rows in all and of a block.
type attentionPart struct {
	file, kernel    string
	rows, each, z   int
	threads, shared int
}

func (d *Device) attentionParts(p *attentionGradParams, parts ...attentionPart) error {
	for _, k := range parts {
		if k.rows == 0 || k.z == 0 {
			continue
		}
		if err := runKernel(d, k.file, k.kernel, p, grid{x: ceil(k.rows, k.each), y: min(int(p.last-p.first), 65535), z: k.z, threads: k.threads, shared: k.shared}); err != nil {
			return err
		}
	}
	return nil
}
