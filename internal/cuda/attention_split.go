//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/dtype"
)

// splitRows is how many rows a block of the kernels of attention_split_sm80.cu and
// attention_grad_split_sm80.cu owns.
const splitRows = 128

// tile is how many bytes so many rows of a head take in shared memory.
func (p *attentionParams) tile(rows int) int { return rows * (p.headWidth(64, 128) + 4) * 4 }

// canAttendSplit reports whether the tensor cores should do a float32 attention (see
// kernels/split.cuh), which they read 16 bytes at a time. The number of matrices does
// not matter: a head's result is the same as if it were alone.
func (d *Device) canAttendSplit(p *attentionParams, t dtype.DType) bool {
	return t == dtype.Float32 && d.card.major >= 8 && d.trial.split >= 0 && p.headWidth(64, 128) > 0 && p.wide&7 == 7 && d.simtFor(t).queries == splitRows &&
		p.splitShared() <= d.card.sharedMax && (d.trial.split > 0 || int(p.rows)*int(p.keys) >= splitFrom)
}

// canAttendGradSplit is the same for gradients, which take more launches.
func (d *Device) canAttendGradSplit(a *attentionParams, t dtype.DType) bool {
	keys, queries := splitGradients(a)
	return d.canAttendSplit(a, t) && a.wide&8 != 0 && max(keys.shared, queries.shared) <= d.card.sharedMax &&
		(d.trial.split > 0 || int(a.rows)*int(a.keys)*a.headWidth(64, 128) >= splitGradFrom)
}

// The number of scores of a matrix, and for gradients of products, from which the tensor
// cores are worth the launch that looks for what must be computed again. Measured on an H200.
const (
	splitFrom     = 64 * 64
	splitGradFrom = 128 * 128 * 128
)

// splitShared is the shared memory of a block: q, and two stages of k and v.
func (p *attentionParams) splitShared() int { return p.tile(splitRows + 4*32) }

// notes is how many bytes it takes to note which of so many rows must be computed
// again.
func (p *attentionParams) notes(rows int32) int { return 4 * ceil(int(rows), 64) * int(p.batches) }

func (d *Device) attentionSplit(p *attentionParams) error {
	var err error
	if p.again, err = d.workspace(p.notes(p.rows)); err != nil {
		return err
	}
	blocks := ceil(int(p.rows), splitRows)
	name := fmt.Sprintf("attention_split%d_f32", p.headWidth(64, 128))
	if err := runKernel(d, "attention_split_sm80", name, p, grid{x: blocks, y: min(int(p.batches), 65535), threads: 256, shared: p.splitShared()}); err != nil {
		return err
	}
	return d.attentionSIMT(p, dtype.Float32, d.fewBlocks(p, blocks*ceil(int(p.width), 64)))
}

// fewBlocks is how many matrices to take at a time where as a rule there is nothing to
// do, if each has so many blocks.
func (d *Device) fewBlocks(p *attentionParams, blocks int) int {
	return min(int(p.batches), max(1, 2*d.card.sms/blocks))
}

// splitGradients returns the kernels of dk and dv, and of dq.
func splitGradients(a *attentionParams) (keys, queries attentionPart) {
	w := a.headWidth(64, 128)
	return attentionPart{"attention_grad_split_sm80", fmt.Sprintf("attention_dkv_split%d_f32", w), int(a.keys), splitRows, 1, 256, a.tile(2*splitRows+4*32) + 2*32*8},
		attentionPart{"attention_grad_split_sm80", fmt.Sprintf("attention_dq_split%d_f32", w), int(a.rows), splitRows, 1, 256, 2 * (a.tile(32) + 32*(splitRows+4)*4)}
}

// attentionGradSplit takes so many matrices at a time. It notes what to compute again at
// forKeys and forQueries.
func (d *Device) attentionGradSplit(p *attentionGradParams, stored int, forKeys, forQueries uintptr) error {
	a := &p.a
	keys, queries := splitGradients(a)
	for ; p.first < a.batches; p.first = p.last {
		p.last = min(p.first+uint64(stored), a.batches)
		a.again = forKeys
		if err := d.attentionParts(p, keys); err != nil {
			return err
		}
		a.again = forQueries
		if err := d.attentionParts(p, queries); err != nil {
			return err
		}
	}
	p.first, p.t = 0, 0
	keys, queries = d.simtFor(dtype.Float32).gradients(a, dtype.Float32)
	a.again = forKeys
	if err := d.attentionAgain(p, keys); err != nil {
		return err
	}
	a.again = forQueries
	return d.attentionAgain(p, queries)
}

// attentionAgain runs a kernel for what was noted.
func (d *Device) attentionAgain(p *attentionGradParams, k attentionPart) error {
	blocks := ceil(k.rows, k.each)
	return runKernel(d, k.file, k.kernel, p, grid{x: blocks, y: d.fewBlocks(&p.a, blocks*k.z), z: k.z, threads: k.threads, shared: k.shared})
}
