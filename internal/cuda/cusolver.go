//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Large matrices are factored by cuSOLVER, one after the other; small ones in main
// memory, where that is faster. It sees columns where we have rows: the transpose. What
// is wrong with a matrix shows at the next wait, as an index does.

func init() {
	runners[op.Cholesky] = (*Device).runFactor
	runners[op.Solve] = (*Device).runFactor
	runners[op.Eigh] = (*Device).runFactor
	runners[op.SVD] = (*Device).runFactor
}

// solverMin is the size of matrices from which cuSOLVER does them.
const solverMin = 128

// solverLibrary is cuSOLVER. Functions are listed for float32 and float64.
type solverLibrary struct {
	path                                       string
	create, setStream                          uintptr
	potrf, getrf, getrs, syevd, gesvd          [2]uintptr
	potrfSize, getrfSize, syevdSize, gesvdSize [2]uintptr
}

// loadSolver finds cuSOLVER, which uses cuBLAS. The number in its name is one less than
// CUDA's.
func loadSolver(drv *driver) (*solverLibrary, error) {
	return loadedSolver.get(func() (*solverLibrary, error) {
		if err := libSolver.Off(); err != nil {
			return nil, err
		}
		if _, err := loadBLAS(drv); err != nil {
			return nil, err
		}
		h, err := libSolver.open(drv.version/1000 - 1)
		if err != nil {
			return nil, err
		}
		l := &solverLibrary{path: h.Path()}
		names := map[string]*uintptr{"cusolverDnCreate": &l.create, "cusolverDnSetStream": &l.setStream}
		for i, t := range []string{"S", "D"} {
			for name, f := range map[string]*uintptr{"potrf": &l.potrf[i], "getrf": &l.getrf[i], "getrs": &l.getrs[i], "syevd": &l.syevd[i], "gesvd": &l.gesvd[i],
				"potrf_bufferSize": &l.potrfSize[i], "getrf_bufferSize": &l.getrfSize[i], "syevd_bufferSize": &l.syevdSize[i], "gesvd_bufferSize": &l.gesvdSize[i]} {
				names["cusolverDn"+t+name] = f
			}
		}
		return l, h.Symbols(names, nil)
	})
}

// solver is a device's handle of cuSOLVER.
type solver struct {
	lib         *solverLibrary
	handle      uintptr
	size        int32 // what calls point to
	unavailable bool
}

// solves reports whether cuSOLVER does a call.
func (d *Device) solves(c *backend.Call) bool {
	if runners[c.Op] == nil || len(c.In) == 0 || len(c.In[0].Shape) < 2 {
		return false
	}
	r := len(c.In[0].Shape)
	if min(c.In[0].Shape[r-1], c.In[0].Shape[r-2]) < solverMin || max(c.In[0].Shape[r-1], c.In[0].Shape[r-2]) >= 1<<15 {
		return false
	}
	d.mu.Lock()
	known := d.libs.solver
	d.mu.Unlock()
	if known != nil {
		return !known.unavailable
	}
	_, err := loadSolver(d.card.drv)
	return err == nil
}

// cusolver returns the device's handle, or errDetour. Between begin and end.
func (d *Device) cusolver() (*solver, error) {
	if s := d.libs.solver; s != nil {
		if s.unavailable {
			return nil, errDetour
		}
		return s, nil
	}
	lib, err := loadSolver(d.card.drv)
	if err != nil {
		return nil, errDetour
	}
	s := &solver{lib: lib}
	d.c.fn, d.c.a[0] = lib.create, uintptr(unsafe.Pointer(&d.word))
	if int32(d.c.do()) != 0 {
		if !d.work.pressed {
			return nil, notStarted(libSolver)
		}
		s.unavailable = true
	} else {
		s.handle = d.word
		d.c.fn, d.c.a[0], d.c.a[1] = lib.setStream, s.handle, d.stream
		s.unavailable = int32(d.c.do()) != 0
	}
	d.libs.solver = s
	if s.unavailable {
		return nil, errDetour
	}
	nowInUse(libSolver.Name)
	return s, nil
}

// call calls a function of cuSOLVER, with the handle first.
func (s *solver) call(d *Device, fn uintptr, args ...uintptr) error {
	d.c.fn, d.c.a[0] = fn, s.handle
	copy(d.c.a[1:], args)
	if r := int32(d.c.doWide()); r != 0 {
		err := fmt.Errorf("cuSOLVER: status %d", r)
		if r == 2 { // ALLOC_FAILED
			return noMemory{err}
		}
		return err
	}
	return nil
}

// factorParams is the parameters of kernels/factor.cu.
type factorParams struct {
	out, a, b, w, info, flag uintptr
	rows, columns            int64
	aRow, aColumn            int64
	bRows, bRow, bColumn     int64
	at                       int64
	op, _                    int32
}

// cuSOLVER's numbers.
const (
	withVectors          = 1
	lowerPart, upperPart = 0, 1
	asTransposed         = 1
)

// factoring is a call of one of the ops.
type factoring struct {
	*Device
	*solver
	c      *backend.Call
	t      dtype.DType
	double int // 1 for float64
	size   int // of an element
	m, n   int // rows and columns
	batch  int
	rooms  [numRooms]uintptr
}

func (d *Device) runFactor(c *backend.Call) error {
	if d.capturing() {
		return fmt.Errorf("cuSOLVER does it, which may wait for the card: %w", op.ErrUnsupported)
	}
	s, err := d.cusolver()
	if err != nil {
		return err
	}
	a := &c.In[0]
	r := len(a.Shape)
	f := &factoring{Device: d, solver: s, c: c, t: a.DType, size: a.DType.Size(), m: a.Shape[r-2], n: a.Shape[r-1], batch: op.Elements(a.Shape[:r-2])}
	if f.t == dtype.Float64 {
		f.double = 1
	}
	if err := d.library(libSolver.Name); err != nil {
		return err
	}
	switch c.Op {
	case op.Cholesky:
		return f.cholesky()
	case op.Solve:
		return f.solve()
	case op.Eigh:
		return f.eigh()
	}
	return f.svd()
}

// take asks for a room of so many bytes, in the order of rooms; 0 for none.
func (f *factoring) take(work, copies, state int) error {
	var err error
	for i, n := range []int{work, copies, state} {
		if n == 0 {
			continue
		}
		if f.rooms[i], err = f.work.room(f.last, i, n); err != nil {
			return err
		}
	}
	return nil
}

// ask calls a function that says how many elements, or bytes, a library works in.
func (f *factoring) ask(fn uintptr, args ...uintptr) (int, error) {
	f.solver.size = 0
	err := f.call(f.Device, fn, append(args, uintptr(unsafe.Pointer(&f.solver.size)))...)
	return int(f.solver.size), err
}

// kernel runs a kernel of factor.cu on every element, or with blocks that many blocks.
func (f *factoring) kernel(name string, p factorParams, blocks int) error {
	p.flag, p.op = f.flagDev, int32(f.c.Op)
	if f.batch == 1 {
		p.at = -1
	}
	if name != "factor_info" {
		name += "_" + typeName(f.t)
	}
	return runKernel(f.Device, "factor", name, &p, grid{x: max(1, min(blocks, 1<<20)), threads: 256})
}

// each returns the number of blocks of kernels that go over n elements.
func each(n int) int { return min(ceil(n, 256), 4096) }

func (f *factoring) info(b int, info uintptr) error {
	return f.kernel("factor_info", factorParams{info: info, at: int64(b)}, 1)
}

// plain returns one matrix of an operand as a view; b counts over the batch's axes.
func plain(v *backend.View, b int) backend.View {
	r := len(v.Shape)
	m := *v
	m.Shape, m.Strides = v.Shape[r-2:], v.Strides[r-2:]
	for i := r - 3; i >= 0; i-- {
		m.Offset += b % v.Shape[i] * v.Strides[i]
		b /= v.Shape[i]
	}
	return m
}

// flip returns a matrix's transpose.
func flip(v backend.View) backend.View {
	v.Shape, v.Strides = []int{v.Shape[1], v.Shape[0]}, []int{v.Strides[1], v.Strides[0]}
	return v
}

// copyOf copies matrix b of the first operand to addr, row by row.
func (f *factoring) copyOf(b int, to uintptr) error {
	v := plain(&f.c.In[0], b)
	return f.copyView(&v, to)
}

func (f *factoring) out(b int) uintptr {
	return f.c.Out.Block.Addr + uintptr(b*(f.c.Out.Elements()/f.batch)*f.size)
}

// cholesky: the upper factor of columns is the lower one of rows.
func (f *factoring) cholesky() error {
	n := f.n
	lwork, err := f.ask(f.lib.potrfSize[f.double], upperPart, uintptr(n), f.c.Out.Block.Addr, uintptr(n))
	if err != nil {
		return err
	}
	if err := f.take(lwork*f.size, n*n*f.size, 256); err != nil {
		return err
	}
	raw, info := f.rooms[copyRoom], f.rooms[stateRoom]
	for b := range f.batch {
		if err := f.copyOf(b, raw); err != nil {
			return err
		}
		out := f.out(b)
		if err := f.kernel("factor_symmetric", factorParams{out: out, a: raw, rows: int64(n), at: int64(b)}, each(n*n)); err != nil {
			return err
		}
		if err := f.call(f.Device, f.lib.potrf[f.double], upperPart, uintptr(n), out, uintptr(n), f.rooms[workRoom], uintptr(lwork), info); err != nil {
			return err
		}
		if err := f.info(b, info); err != nil {
			return err
		}
		if err := f.kernel("factor_lower", factorParams{out: out, rows: int64(n)}, each(n*n)); err != nil {
			return err
		}
	}
	return nil
}

// solve factors the columns, which are the transpose, and solves with the transpose of that.
func (f *factoring) solve() error {
	n := f.n
	right := &f.c.In[1]
	k := right.Shape[len(right.Shape)-1]
	lwork, err := f.ask(f.lib.getrfSize[f.double], uintptr(n), uintptr(n), f.c.Out.Block.Addr, uintptr(n))
	if err != nil {
		return err
	}
	matrix, rhs, pivots := padded(n*n*f.size), padded(n*k*f.size), padded(4*n)
	if err := f.take(lwork*f.size, 2*matrix, rhs+pivots+256); err != nil {
		return err
	}
	raw := f.rooms[copyRoom]
	a := raw + uintptr(matrix)
	x := f.rooms[stateRoom]
	pivot := x + uintptr(rhs)
	info := pivot + uintptr(pivots)
	for b := range f.batch {
		if err := f.copyOf(b, raw); err != nil {
			return err
		}
		if err := f.kernel("factor_checked", factorParams{out: a, a: raw, rows: int64(n), columns: int64(n), at: int64(b)}, each(n*n)); err != nil {
			return err
		}
		v := flip(plain(right, b))
		if err := f.copyView(&v, x); err != nil {
			return err
		}
		if err := f.call(f.Device, f.lib.getrf[f.double], uintptr(n), uintptr(n), a, uintptr(n), f.rooms[workRoom], pivot, info); err != nil {
			return err
		}
		if err := f.info(b, info); err != nil {
			return err
		}
		if err := f.call(f.Device, f.lib.getrs[f.double], asTransposed, uintptr(n), uintptr(k), a, uintptr(n), pivot, x, uintptr(n), info); err != nil {
			return err
		}
		y := backend.View{Block: blockAt(x), Shape: []int{n, k}, Strides: []int{1, n}, DType: f.t}
		if err := f.copyView(&y, f.out(b)); err != nil {
			return err
		}
	}
	return nil
}

// eigh: the columns of the vectors are rows in memory.
func (f *factoring) eigh() error {
	n := f.n
	matrix := padded(n * n * f.size)
	lwork, err := f.ask(f.lib.syevdSize[f.double], withVectors, lowerPart, uintptr(n), f.c.Out.Block.Addr, uintptr(n), f.c.Out.Block.Addr)
	if err != nil {
		return err
	}
	values := padded(n * f.size)
	if err := f.take(lwork*f.size, 2*matrix, values+256); err != nil {
		return err
	}
	raw := f.rooms[copyRoom]
	a := raw + uintptr(matrix)
	w := f.rooms[stateRoom]
	info := w + uintptr(values)
	for b := range f.batch {
		if err := f.copyOf(b, raw); err != nil {
			return err
		}
		if err := f.kernel("factor_symmetric", factorParams{out: a, a: raw, rows: int64(n), at: int64(b)}, each(n*n)); err != nil {
			return err
		}
		if err := f.call(f.Device, f.lib.syevd[f.double], withVectors, lowerPart, uintptr(n), a, uintptr(n), w, f.rooms[workRoom], uintptr(lwork), info); err != nil {
			return err
		}
		if err := f.info(b, info); err != nil {
			return err
		}
		if err := f.kernel("factor_pack", factorParams{out: f.out(b), a: a, w: w, rows: int64(n), columns: int64(n), aRow: 1, aColumn: int64(n)}, n); err != nil {
			return err
		}
	}
	return nil
}

// svd passes the library the columns of a tall matrix: the columns of a, or for a flat
// matrix those of its transpose, which are a's rows; then U and V change places.
func (f *factoring) svd() error {
	tall, k := f.m >= f.n, min(f.m, f.n)
	rows := max(f.m, f.n)
	lwork, err := f.ask(f.lib.gesvdSize[f.double], uintptr(rows), uintptr(k))
	if err != nil {
		return err
	}
	matrix, square, values := padded(rows*k*f.size), padded(k*k*f.size), padded(k*f.size)
	if err := f.take(lwork*f.size, 2*matrix, matrix+square+values+256); err != nil {
		return err
	}
	raw := f.rooms[copyRoom]
	a := raw + uintptr(matrix)
	u := f.rooms[stateRoom]
	vt := u + uintptr(matrix)
	s := vt + uintptr(square)
	info := s + uintptr(values)
	for b := range f.batch {
		v := plain(&f.c.In[0], b)
		if tall {
			v = flip(v)
		}
		if err := f.copyView(&v, raw); err != nil {
			return err
		}
		if err := f.kernel("factor_checked", factorParams{out: a, a: raw, rows: int64(rows), columns: int64(k), at: int64(b)}, each(rows*k)); err != nil {
			return err
		}
		if err := f.call(f.Device, f.lib.gesvd[f.double], 'S', 'S', uintptr(rows), uintptr(k), a, uintptr(rows), s, u, uintptr(rows), vt, uintptr(k),
			f.rooms[workRoom], uintptr(lwork), 0, info); err != nil {
			return err
		}
		if err := f.info(b, info); err != nil {
			return err
		}
		// Element (i, j) of u's columns is at i + j·rows, of the transpose of vt at j + i·k.
		p := factorParams{out: f.out(b), w: s, columns: int64(k), a: u, rows: int64(rows), aRow: 1, aColumn: int64(rows), b: vt, bRows: int64(k), bRow: int64(k), bColumn: 1}
		if !tall {
			p.a, p.rows, p.aRow, p.aColumn = vt, int64(k), int64(k), 1
			p.b, p.bRows, p.bRow, p.bColumn = u, int64(rows), 1, int64(rows)
		}
		if err := f.kernel("factor_pack", p, k); err != nil {
			return err
		}
	}
	return nil
}

// unsuitable is the error of a matrix that a kernel has reported: number at of its batch,
// and what cuSOLVER said, -1 for elements that are not finite.
func unsuitable(id op.ID, at, said int64) error {
	name := "the matrix"
	if at >= 0 {
		name = fmt.Sprintf("matrix %d of the batch, counted over all its axes,", at)
	}
	switch {
	case said < 0:
		return op.Problemf(op.ErrMatrix, "%s has elements that are NaN or infinite", name)
	case id == op.Cholesky:
		return op.Problemf(op.ErrMatrix, "%s is not positive definite: its leading part of size %d is not", name, said)
	case id == op.Solve:
		return op.Problemf(op.ErrMatrix, "%s is singular", name)
	}
	return op.Problemf(op.ErrMatrix, "%s is such that the iteration does not converge", name)
}
