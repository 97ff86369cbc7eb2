package gemm

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

// single reports whether the product is a vector times a row-major matrix
// large enough for the kernel that reads the matrix row by row.
func (p *problem[T]) single() bool {
	return p.m == 1 && p.ks.row != nil && p.a.format == 0 && p.b.format == 0 && p.b.col == 1 && p.k >= 8 && p.n >= 32
}

// row computes a single row of C.
func (p *problem[T]) row() {
	const rows = 8 // that one pass of the kernel adds
	es := int(unsafe.Sizeof(T(0)))
	lanes := p.ks.lanes
	// Columns are divided so that a share of C stays in L1, and among threads
	// where there is work for them, but never finely: B is read along its rows.
	grain := 2048
	if tasks := min(p.threads, 2*p.n*p.k/thinPerTask); tasks > 1 {
		grain = min(grain, max(128, (p.n/tasks+lanes-1)/lanes*lanes))
	}
	p.loop(p.n, grain, func(lo, hi int) {
		s := scratches[T]().Get().(*scratch[T])
		for j0 := lo; j0 < hi; j0 += grain {
			j1 := min(j0+grain, hi)
			p.rowRange(s, j0, j1, rows, es)
		}
		s.release()
	})
}

func (p *problem[T]) rowRange(s *scratch[T], j0, j1, rows, es int) {
	// The kernel wants whole vectors: the sums are kept apart from C, padded.
	lanes := p.ks.lanes
	w := j1 - j0
	whole := w / lanes * lanes
	sum := grow(&s.a, w+rows)
	x := sum[w:][:rows]
	sum = sum[:w]
	clear(sum)
	q := 0
	for ; q+rows <= p.k; q += rows {
		for i := range x {
			x[i] = p.a.data[(q+i)*p.a.col]
		}
		if whole > 0 {
			p.ks.row(bytePtr(sum), bytePtr(x), (*byte)(unsafe.Pointer(&p.b.data[q*p.b.row+j0])), p.b.row*es, whole)
		}
		for j := whole; j < w; j++ {
			v := sum[j]
			for i := range x {
				v += x[i] * p.b.data[(q+i)*p.b.row+j0+j]
			}
			sum[j] = v
		}
	}
	for ; q < p.k; q++ {
		axpy(sum, p.a.data[q*p.a.col], p.b.data[q*p.b.row+j0:][:w])
	}
	p.putRow(0, j0, sum)
	p.activate(0, 1, j0, j1)
}

func bytePtr[T any](d []T) *byte { return (*byte)(unsafe.Pointer(&d[0])) }

func axpy[T Float](dst []T, s T, x []T) {
	switch d := any(dst).(type) {
	case []float32:
		vec.AxpyF32(d, float32(s), any(x).([]float32))
	case []float64:
		vec.AxpyF64(d, float64(s), any(x).([]float64))
	}
}
