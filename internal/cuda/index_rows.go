//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"math/bits"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
)

// The parameters of kernels/index_rows.cu.
type (
	radixParams struct {
		index                   uintptr
		keys, order             uintptr
		keysOut, orderOut       uintptr
		counts, flag            uintptr
		step                    int64
		n, limit, span          uint32
		shift, bits, wide, opID int32
		_                       int32
	}
	rowSumsParams struct {
		out, x, src                 uintptr
		keys, order, partial        uintptr
		n, limit, length, chunks    uint32
		width, outStride, srcStride int64
		uniform, _                  int32
	}
)

// What kernels/index_rows.cu is compiled for.
const (
	radixTile   = 1024 // keys that a block ranks at a time
	radixBlocks = 128  // at most: each reads the counts of all
	radixBits   = 9    // of a pass, at most
	rowChunk    = 32   // sorted rows that a warp sums, at least
	rowChunks   = 4096 // chunks, at most
	rowPartials = 64 << 20
)

// radix is how indices are sorted: by passes passes over digits of digit bits.
type radix struct {
	n, limit              int
	passes, digit         int
	blocks, span          int
	counts, keys, working int // bytes: of the counts, of one list of keys or positions, of everything
}

func newRadix(n, limit int) radix {
	r := radix{n: n, limit: limit}
	width := max(1, bits.Len(uint(limit))) // limit stands for what is out of range
	r.passes = ceil(width, radixBits)
	r.digit = ceil(width, r.passes)
	r.span = ceil(ceil(n, radixBlocks), radixTile) * radixTile
	r.blocks = ceil(n, r.span)
	r.counts = padded(4 * r.blocks << r.digit)
	r.keys = padded(4 * n)
	r.working = r.counts + 4*r.keys
	return r
}

// padded rounds a number of bytes up to the alignment of what shares a workspace.
func padded(size int) int { return (size + 255) &^ 255 }

// sort queues sorting the indices that p says, in working memory, and returns where
// they and their places lie.
func (r *radix) sort(d *Device, p *scatterParams, work uintptr) (keys, order uintptr, err error) {
	at := func(list int) uintptr { return work + uintptr(r.counts+list*r.keys) }
	q := radixParams{index: p.index, counts: work, flag: d.flagDev, step: p.indexStep, n: uint32(r.n), limit: uint32(r.limit), span: uint32(r.span),
		bits: int32(r.digit), wide: p.wide, opID: p.op, keysOut: at(0), orderOut: at(1)}
	g := grid{x: r.blocks, threads: 256}
	for pass := range r.passes {
		if pass > 0 {
			q.keys, q.order = q.keysOut, q.orderOut
			q.keysOut, q.orderOut = at(2*(pass%2)), at(2*(pass%2)+1)
		}
		q.shift = int32(pass * r.digit)
		if err := runKernel(d, "index_rows", "radix_count", &q, g); err != nil {
			return 0, 0, err
		}
		if err := runKernel(d, "index_rows", "radix_place", &q, g); err != nil {
			return 0, 0, err
		}
	}
	return q.keysOut, q.orderOut, nil
}

// radixFits reports whether indices can be sorted by their digits, and should be:
// a list that one block sorts takes fewer launches the other way.
func radixFits(p *scatterParams) bool {
	return p.lines == 1 && p.length > sortRun && p.length < math.MaxInt32 && p.limit < math.MaxInt32
}

// wholeRows reports whether p adds whole rows that the kernels of index_rows.cu can
// read 16 bytes at a time, and have enough of to keep a warp busy.
func (p *scatterParams) wholeRows(t dtype.DType) bool {
	v := int64(16 / t.Size())
	return t.IsFloat() && p.lines == 1 && p.length < math.MaxInt32 && p.limit < math.MaxInt32 &&
		p.cell.nd == 1 && p.cell.stride[0][0] == 1 && p.cell.stride[1][0] == 1 &&
		int64(p.inner)%v == 0 && int64(p.inner) >= 8*v && p.axis%v == 0 && p.srcStep%v == 0 && p.src%16 == 0 && p.out%16 == 0
}

// addRows queues adding whole rows to out, which holds x already.
func (d *Device) addRows(x *backend.View, p *scatterParams) error {
	t, n := x.DType, int(p.length)
	v := 16 / t.Size()
	width := int(p.inner) / v
	wide := max(t.Size(), 4) // of a number in a partial sum
	r := newRadix(n, int(p.limit))
	chunks := max(1, min(ceil(n, rowChunk), rowChunks, rowPartials/(2*int(p.inner)*wide)))
	length := ceil(ceil(n, chunks), rowChunk) * rowChunk
	chunks = ceil(n, length)
	partial := 0
	if chunks > 1 {
		partial = 2 * chunks * int(p.inner) * wide
	}
	work, err := d.workspace(r.working + partial)
	if err != nil {
		return err
	}
	q := rowSumsParams{out: p.out, x: addr(x), src: p.src, partial: work + uintptr(r.working), n: uint32(n), limit: uint32(p.limit), length: uint32(length),
		chunks: uint32(chunks), width: int64(width), outStride: p.axis / int64(v), srcStride: p.srcStep / int64(v), uniform: 1}
	for i, s := range x.Strides {
		if s != 0 && x.Shape[i] > 1 {
			q.uniform = 0
		}
	}
	if q.keys, q.order, err = r.sort(d, p, work); err != nil {
		return err
	}
	g := grid{x: ceil(chunks, 8), y: ceil(width, 32), threads: 256}
	if err := runKernel(d, "index_rows", "row_sums_"+typeName(t), &q, g); err != nil || chunks == 1 {
		return err
	}
	return runKernel(d, "index_rows", "row_joins_"+typeName(t), &q, g)
}
