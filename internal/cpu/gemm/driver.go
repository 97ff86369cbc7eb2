package gemm

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// problem is one product with everything a worker needs to know.
type problem[T Float] struct {
	ks      *kernels[T]
	m, n, k int
	a, b    source[T]
	c       []T
	ldc     int
	ep      Epilogue[T]
	threads int
	slice   bool // of a flat product, along k

	out    []uint16 // C in half precision; c is then nil, or has the sums
	ldo    int
	format dtype.DType
}

// scratch is what one worker needs; it lives on the heap because kernels are
// called through pointers.
type scratch[T Float] struct {
	t tile
	d dots
	a []T
}

var (
	scratch32 = sync.Pool{New: func() any { return new(scratch[float32]) }}
	scratch64 = sync.Pool{New: func() any { return new(scratch[float64]) }}
	problem32 = sync.Pool{New: func() any { return new(problem[float32]) }}
	problem64 = sync.Pool{New: func() any { return new(problem[float64]) }}
	buffers32 = sync.Pool{New: func() any { return new([]float32) }}
	buffers64 = sync.Pool{New: func() any { return new([]float64) }}
)

func problems[T Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &problem32
	}
	return &problem64
}

func scratches[T Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &scratch32
	}
	return &scratch64
}

func buffers[T Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &buffers32
	}
	return &buffers64
}

// release returns s for reuse without holding on to the matrices it worked on.
func (s *scratch[T]) release() {
	s.t = tile{}
	s.d.x, s.d.y = nil, nil
	scratches[T]().Put(s)
}

// grow returns *p with length n, reallocated if it is too short.
func grow[T any](p *[]T, n int) []T {
	if cap(*p) < n {
		*p = make([]T, n)
	}
	return (*p)[:n]
}

func check[T Float](m, n, k int, a, b source[T], size, ldc int, ep *Epilogue[T]) {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("gemm: negative size %d×%d×%d", m, n, k))
	}
	if m == 0 || n == 0 {
		return
	}
	if m > 1 && ldc < n || size < (m-1)*ldc+n {
		panic(fmt.Sprintf("gemm: C of %d elements with row stride %d cannot hold %d×%d", size, ldc, m, n))
	}
	if k > 0 {
		a.check("A", m, k)
		b.check("B", k, n)
	}
	if ep.Bias != nil && len(ep.Bias) < n {
		panic(fmt.Sprintf("gemm: %d biases for %d columns", len(ep.Bias), n))
	}
	if ep.RowBias != nil && len(ep.RowBias) < m {
		panic(fmt.Sprintf("gemm: %d biases for %d rows", len(ep.RowBias), m))
	}
}

func (s source[T]) check(name string, rows, cols int) {
	if s.row < 0 || s.col < 0 {
		panic("gemm: negative stride in " + name)
	}
	have := len(s.data)
	if s.format != 0 {
		have = len(s.bits)
	}
	need := (rows-1)*s.row + (cols-1)*s.col + 1
	if s.starts != nil {
		need = s.starts.last + rows
	}
	if have < need {
		panic(fmt.Sprintf("gemm: %s has %d elements, %d×%d with strides %d, %d needs %d", name, have, rows, cols, s.row, s.col, need))
	}
}

func run[T Float](ks *kernels[T], m, n, k int, a, b source[T], c []T, ldc int, ep *Epilogue[T], threads int) {
	p := newProblem(ks, m, n, k, a, b, len(c), ldc, ep, threads)
	if p == nil {
		return
	}
	p.c, p.ldc = c, ldc
	if x := external.Load(); x == nil || k == 0 || !x.takes(m, n, k) || !p.external(x) {
		p.compute()
	}
	p.release()
}

// newProblem checks the operands; nil means that C has no elements. size is C's.
func newProblem[T Float](ks *kernels[T], m, n, k int, a, b source[T], size, ldc int, ep *Epilogue[T], threads int) *problem[T] {
	var e Epilogue[T]
	if ep != nil {
		e = *ep
	}
	if e.Alpha == 0 {
		e.Alpha = 1
	}
	check(m, n, k, a, b, size, ldc, &e)
	if m == 0 || n == 0 {
		return nil
	}
	if ks.pairs != noPairs && k > 0 {
		a, b, k = ks.paired(a, b, k)
	}
	p := problems[T]().Get().(*problem[T])
	*p = problem[T]{ks: ks, m: m, n: n, k: k, a: a, b: b, ep: e, threads: threads}
	return p
}

func (p *problem[T]) release() {
	*p = problem[T]{} // let go of the matrices
	problems[T]().Put(p)
}

// compute picks the way that suits the product. It depends on the shape and on
// how the matrices lie, never on the number of threads, wherever results do.
func (p *problem[T]) compute() {
	switch {
	case p.k == 0:
		p.empty()
	case p.b.starts != nil:
		if p.wide() {
			p.wideBlocked()
		} else {
			p.blocked()
		}
	case p.thin():
		p.dotted()
	case p.n == 1 && p.ldc == 1 && p.a.row == 1 && p.a.format == 0 && p.b.format == 0:
		// A column of C from a column-major A is a row of the transpose.
		p.flip()
		p.inPlace()
	case p.single():
		p.inPlace()
	case p.narrow():
		p.turned()
	case p.small():
		p.inPlace()
	case p.smallAlongK():
		p.halfDirect()
	case p.wide():
		p.wideBlocked()
	default:
		p.blocked()
	}
}

// inPlace computes a product whose matrices are read where they lie.
func (p *problem[T]) inPlace() {
	parts := 1
	if p.flat() && p.b.col == 1 {
		parts, _ = p.slices()
	}
	switch {
	case parts > 1:
		p.sliced()
	case p.single():
		p.row()
	default:
		p.direct()
	}
}

// flip turns C = A*B into Cᵀ = Bᵀ*Aᵀ, for a C of one column that lies adjacent
// in memory: as a row the kernels can write it.
func (p *problem[T]) flip() {
	p.m, p.n = p.n, p.m
	p.a, p.b = p.b.transposed(), p.a.transposed()
	p.ep.Bias, p.ep.RowBias = p.ep.RowBias, p.ep.Bias
	p.ldc = p.n
}

// empty handles k == 0: C = act(beta*C + bias).
func (p *problem[T]) empty() {
	for i := range p.m {
		row := p.c[i*p.ldc:][:p.n]
		for j := range row {
			var v T
			if p.ep.Beta != 0 {
				v = p.ep.Beta * row[j]
			}
			if p.ep.Bias != nil {
				v += p.ep.Bias[j]
			}
			if p.ep.RowBias != nil {
				v += p.ep.RowBias[i]
			}
			if p.ep.Act == op.Relu && v < 0 {
				v = 0
			}
			row[j] = v
		}
	}
	p.done(0, p.m, 0, p.n)
}

// activate applies the activations that are not part of the kernels.
func (p *problem[T]) activate(i0, i1, j0, j1 int) {
	if p.ep.Act == op.Invalid || p.ep.Act == op.Relu {
		return
	}
	for i := i0; i < i1; i++ {
		Activate(p.ep.Act, p.c[i*p.ldc+j0:i*p.ldc+j1])
	}
}

// depth is how much of k one pass over packed panels takes: k in equal parts
// of at most kc, rounded to the kernels' unrolling. It must not depend on
// anything but k, or results would.
func (p *problem[T]) depth() int {
	parts := (p.k + p.ks.kc - 1) / p.ks.kc
	unit := p.ks.unit()
	return min(p.k, ((p.k+parts-1)/parts+unit-1)&^(unit-1))
}

// begin fills in what all tiles of a k-block share.
func (p *problem[T]) begin(t *tile, pc, kc int) {
	t.k = kc
	t.alpha = toBits(p.ep.Alpha)
	t.flags = 0
	switch {
	case pc > 0:
		t.flags |= flagBeta
		t.beta = toBits(T(1))
	case p.ep.Beta != 0:
		t.flags |= flagBeta
		t.beta = toBits(p.ep.Beta)
	}
	if pc+kc == p.k && p.ep.Act == op.Relu {
		t.flags |= flagReLU
	}
	t.ldc = p.ldc * int(unsafe.Sizeof(T(0)))
}

// operands are what a column of tiles reads: the first row of A and the first column of B
// in a k-block, and the distances in bytes from a row of A, a column of A, a tile of A and a
// row of B to the next. packed says that both have been packed for the kernels.
type operands struct {
	a, b                    unsafe.Pointer
	rowA, colA, stepA, rowB int
	packed                  bool
}

// column computes rows [i0, i1) of the w columns from j of C for the k-block
// [pc, pc+kc), w at most nr.
func (p *problem[T]) column(t *tile, o operands, i0, i1, j, w, pc, kc int) {
	ks := p.ks
	es := int(unsafe.Sizeof(T(0)))
	nv := (w-1)/ks.lanes + 1
	t.tail = w - (nv-1)*ks.lanes
	fs := ks.full
	if t.tail < ks.lanes {
		fs = ks.edge
	}
	t.b, t.rowA, t.colA, t.rowB = o.b, o.rowA, o.colA, o.rowB
	last := pc+kc == p.k
	t.bias = nil
	if last && p.ep.Bias != nil {
		t.bias = unsafe.Pointer(&p.ep.Bias[j])
	}
	rows := i1 - i0
	full, rest := rows/ks.mr, rows%ks.mr
	// A tile of few rows waits for its own sums. Two of medium height do not, if
	// the rows of A lie so that they can be had.
	both := 0
	if full > 0 && rest > 0 && rest < lowTile && o.stepA == ks.mr*o.rowA && ks.pairs == noPairs {
		full--
		both = ks.mr + rest
		rest = both / 2
	}
	if full > 0 {
		t.a, t.c = o.a, unsafe.Pointer(&p.c[i0*p.ldc+j])
		t.tiles, t.stepA, t.stepC = full, o.stepA, ks.mr*t.ldc
		p.rowBias(t, i0, last, es)
		if o.packed && w == ks.nr() {
			t.run(ks.packed)
		} else {
			t.run(fs[ks.mr-1][nv-1])
		}
	}
	if both > 0 {
		done := full * ks.mr
		t.tiles = 1
		t.a, t.c = unsafe.Add(o.a, full*o.stepA), unsafe.Pointer(&p.c[(i0+done)*p.ldc+j])
		p.rowBias(t, i0+done, last, es)
		t.run(fs[both-rest-1][nv-1])
	}
	if rest > 0 {
		done := rows - rest
		t.tiles = 1
		t.a, t.c = unsafe.Add(o.a, full*o.stepA+(done-full*ks.mr)*o.rowA), unsafe.Pointer(&p.c[(i0+done)*p.ldc+j])
		p.rowBias(t, i0+done, last, es)
		t.run(fs[rest-1][nv-1])
	}
}

// lowTile is the height from which on a tile has enough sums to hide the time
// that an addition takes.
const lowTile = 4

func (p *problem[T]) rowBias(t *tile, i int, last bool, es int) {
	t.rowBias, t.stepBias = nil, 0
	if last && p.ep.RowBias != nil {
		t.rowBias, t.stepBias = unsafe.Pointer(&p.ep.RowBias[i]), p.ks.mr*es
	}
}
