package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// The size of a panel. A column of float32 is a cache line.
const (
	panelRows    = 16
	panelColumns = 512
)

// transposed reports whether an operand's columns are contiguous where its rows
// are not, so that going through the result row by row would use a cache line
// for each of its elements.
func (it *iterator) transposed() bool {
	if it.rank < 2 || it.shape[it.rank-1] < panelRows || it.shape[it.rank-2] < 4 {
		return false
	}
	for k := range it.count {
		if o := &it.operands[k]; it.turned(o) {
			return true
		}
	}
	return false
}

func (it *iterator) turned(o *operand) bool {
	return !o.uniform && o.strides[it.rank-2] == 1 && distance(o.strides[it.rank-1]) >= 4 && o.strides[it.rank-1] != 0
}

// runPanels is run over the whole space in panels of some rows and columns, into
// which transposed operands are transposed first.
func (it *iterator) runPanels(grain int, body func(at, n int, p pieces)) {
	last := it.rank - 1
	rows, inner := it.shape[last-1], it.shape[last]
	panels := (rows-1)/panelRows + 1
	pool.For(it.n/(rows*inner)*panels, max(1, grain/(panelRows*inner)), func(lo, hi int) {
		s := borrow(maxOperands * panelRows * panelColumns * 8)
		var index [op.MaxRank]int
		var p pieces
		for t := lo; t < hi; t++ {
			r0 := t % panels * panelRows
			height := min(panelRows, rows-r0)
			first := (t/panels*rows + r0) * inner
			it.at(first, &index)
			for c0 := 0; c0 < inner; c0 += panelColumns {
				n := min(panelColumns, inner-c0)
				for k := range it.count {
					if o := &it.operands[k]; it.turned(o) {
						p[k] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.mem)), k*panelRows*panelColumns*8)
						it.transpose(p[k], o, o.first+dot(&index, &o.strides, it.rank)+c0*o.strides[last], height, n)
					}
				}
				for r := range height {
					q := p
					for k := range it.count {
						o := &it.operands[k]
						if it.turned(o) {
							q[k] = unsafe.Add(p[k], r*panelColumns*o.width)
							continue
						}
						buffer := unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.mem)), k*panelRows*panelColumns*8)
						at, stride := o.first+dot(&index, &o.strides, it.rank)+r*o.strides[last-1]+c0*o.strides[last], o.strides[last]
						switch stride {
						case 1:
							q[k] = unsafe.Add(o.data, at*o.width)
						case 0:
							fill(buffer, o, at, n)
							q[k] = buffer
						default:
							gatherRow(buffer, o, at, stride, n)
							q[k] = buffer
						}
					}
					body(first+r*inner+c0, n, q)
				}
			}
		}
		s.free()
	})
}

// transpose fills a panel from place at of the operand on.
func (it *iterator) transpose(dst unsafe.Pointer, o *operand, at, height, n int) {
	const room = panelRows * panelColumns
	from := o.strides[it.rank-1]
	switch o.width {
	case 1:
		transpose(buf[uint8](dst, room), panelColumns, words[uint8](o), at, from, height, n)
	case 2:
		transpose(buf[uint16](dst, room), panelColumns, words[uint16](o), at, from, height, n)
	case 4:
		transpose(buf[uint32](dst, room), panelColumns, words[uint32](o), at, from, height, n)
	default:
		transpose(buf[uint64](dst, room), panelColumns, words[uint64](o), at, from, height, n)
	}
}
