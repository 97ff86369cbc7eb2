// Package mpi moves and reduces main memory among ranks by way of an MPI library that the
// machine has: Open MPI or MPICH, and what has the ABI of either (Intel MPI, MVAPICH, Cray's
// have MPICH's). It is loaded, not linked, and told apart by its symbols: Open MPI's handles
// are addresses, MPICH's are numbers.
//
// A call of MPI's cannot be broken off. Each runs on a thread of its own; when its context
// ends, it is left behind, the group is over, and the process ends without finalizing.
package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/dynlib"
	"github.com/locusml/locus/internal/engine"
)

// Family tells the ABIs apart.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	MPICH   Family = "MPICH"
)

// library is the MPI library of the process.
type library struct {
	path    string
	family  Family
	version string

	world, errorsReturn uintptr
	ignore              uintptr // in place of a status
	types               map[dtype.DType]uintptr
	ops                 map[engine.Op]uintptr
	byteType            uintptr

	initThread     func(argc, argv unsafe.Pointer, required int32, provided *int32) int32
	initialized    func(flag *int32) int32
	finalize       func() int32
	libraryVersion func(s *byte, n *int32) int32
	errorString    func(code int32, s *byte, n *int32) int32
	commDup        func(comm uintptr, dup *uintptr) int32
	commSplit      func(comm uintptr, color, key int32, part *uintptr) int32
	commRank       func(comm uintptr, rank *int32) int32
	commSize       func(comm uintptr, size *int32) int32
	setErrHandler  func(comm, handler uintptr) int32
	allreduce      func(in, out unsafe.Pointer, n int32, t, op, comm uintptr) int32
	reduce         func(in, out unsafe.Pointer, n int32, t, op uintptr, root int32, comm uintptr) int32
	bcast          func(b unsafe.Pointer, n int32, t uintptr, root int32, comm uintptr) int32
	allgatherv     func(in unsafe.Pointer, n int32, t uintptr, out unsafe.Pointer, counts, at *int32, rt, comm uintptr) int32
	reduceScatter  func(in, out unsafe.Pointer, counts *int32, t, op, comm uintptr) int32
	isend          func(b unsafe.Pointer, n int32, t uintptr, to, tag int32, comm uintptr, request *uintptr) int32
	irecv          func(b unsafe.Pointer, n int32, t uintptr, from, tag int32, comm uintptr, request *uintptr) int32
	test           func(request *uintptr, flag *int32, status uintptr) int32
}

// names are what the families call themselves to the loader, on Linux and macOS.
var names = map[Family][]string{
	OpenMPI: {"libmpi.so.40", "libmpi.so.80", "libmpi.so.20", "libmpi.40.dylib"},
	MPICH:   {"libmpich.so.12", "libmpi.so.12", "libmpich.so", "libmpi.12.dylib", "libmpich.12.dylib"},
}

// Launched returns the family whose mpirun has started this process, "" if none has.
func Launched(get func(string) string) Family {
	switch {
	case get("OMPI_COMM_WORLD_SIZE") != "":
		return OpenMPI
	case get("PMI_SIZE") != "" || get("PMI_FD") != "":
		return MPICH
	}
	return ""
}

// find loads the library of a family, any if it is "".
func find(f Family) (*dynlib.Handle, error) {
	l := dynlib.Library{Name: "an MPI library", Env: "LOCUS_MPI", Global: true, Folders: folders(),
		Remedy: "install Open MPI (Debian: openmpi-bin) or MPICH (Debian: mpich), or set LOCUS_MPI to the file"}
	switch f {
	case "":
		l.Names = append(append([]string{}, names[OpenMPI]...), names[MPICH]...)
	default:
		l.Name, l.Names = string(f), append(append([]string{}, names[f]...), "libmpi.so")
	}
	return l.Open()
}

func folders() []string {
	l := []string{}
	for _, root := range []string{os.Getenv("MPI_HOME"), os.Getenv("OPAL_PREFIX"), "/opt/openmpi", "/usr/local/openmpi", "/usr/local"} {
		if root != "" {
			l = append(l, root+"/lib")
		}
	}
	return append(l, append(dynlib.Wheels(), append(dynlib.System(), "/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib")...)...)
}

func open(f Family) (*library, error) {
	defer keepSignals()()
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return nil, dynlib.ErrBuild
	}
	h, err := find(f)
	if err != nil {
		return nil, err
	}
	l := &library{}
	err = h.Functions(map[string]any{
		"MPI_Init_thread": &l.initThread, "MPI_Initialized": &l.initialized, "MPI_Finalize": &l.finalize,
		"MPI_Get_library_version": &l.libraryVersion, "MPI_Error_string": &l.errorString,
		"MPI_Comm_dup": &l.commDup, "MPI_Comm_split": &l.commSplit, "MPI_Comm_rank": &l.commRank, "MPI_Comm_size": &l.commSize, "MPI_Comm_set_errhandler": &l.setErrHandler,
		"MPI_Allreduce": &l.allreduce, "MPI_Reduce": &l.reduce, "MPI_Bcast": &l.bcast, "MPI_Allgatherv": &l.allgatherv,
		"MPI_Reduce_scatter": &l.reduceScatter, "MPI_Isend": &l.isend, "MPI_Irecv": &l.irecv, "MPI_Test": &l.test,
	})
	if err != nil {
		return nil, err
	}
	l.path = h.Path()
	if h.Symbol("ompi_mpi_comm_world") != 0 {
		l.family = OpenMPI
		err = l.openMPI(h)
	} else {
		l.family = MPICH
		l.mpich()
	}
	if err != nil {
		return nil, err
	}
	text, n := make([]byte, 8192), new(int32) // the most that any has
	l.libraryVersion(&text[0], n)
	first, _, _ := strings.Cut(string(text[:max(*n, 0)]), "\n")
	first, _, _ = strings.Cut(first, ",")
	l.version = strings.Join(strings.Fields(strings.Trim(first, "\x00")), " ")
	return l, nil
}

// openMPI finds the handles of Open MPI: the addresses of variables.
func (l *library) openMPI(h *dynlib.Handle) error {
	var f32, f64, i32, i64, u8, sum, prod, most, least uintptr
	err := h.Symbols(map[string]*uintptr{
		"ompi_mpi_comm_world": &l.world, "ompi_mpi_errors_return": &l.errorsReturn, "ompi_mpi_byte": &l.byteType,
		"ompi_mpi_float": &f32, "ompi_mpi_double": &f64, "ompi_mpi_int32_t": &i32, "ompi_mpi_int64_t": &i64, "ompi_mpi_uint8_t": &u8,
		"ompi_mpi_op_sum": &sum, "ompi_mpi_op_prod": &prod, "ompi_mpi_op_max": &most, "ompi_mpi_op_min": &least,
	}, nil)
	l.set(f32, f64, i32, i64, u8, sum, prod, most, least)
	return err
}

// mpich sets the handles of MPICH's ABI, which are numbers that it promises not to change.
func (l *library) mpich() {
	l.world, l.errorsReturn, l.byteType, l.ignore = 0x44000000, 0x54000001, 0x4c00010d, 1
	l.set(0x4c00040a, 0x4c00080b, 0x4c000439, 0x4c00083a, 0x4c00013b, 0x58000003, 0x58000004, 0x58000001, 0x58000002)
}

func (l *library) set(f32, f64, i32, i64, u8, sum, prod, most, least uintptr) {
	l.types = map[dtype.DType]uintptr{dtype.Float32: f32, dtype.Float64: f64, dtype.Int32: i32, dtype.Int64: i64, dtype.Uint8: u8, dtype.Bool: u8}
	l.ops = map[engine.Op]uintptr{engine.Sum: sum, engine.Mean: sum, engine.Product: prod, engine.Max: most, engine.Min: least}
}

// check turns a result into an error.
func (l *library) check(name string, code int32) error {
	if code == 0 {
		return nil
	}
	text, n := make([]byte, 1024), new(int32)
	if l.errorString(code, &text[0], n) != 0 {
		*n = 0
	}
	return fmt.Errorf("%s failed with %d: %s", name, code, strings.TrimSpace(string(text[:max(*n, 0)])))
}

// process is MPI as this process uses it: it can be started once and ended once.
var process struct {
	mu     sync.Mutex
	lib    *library
	err    error
	tried  bool
	groups int
	lost   bool          // a call was left behind: do not finalize
	ended  bool          // finalized
	end    chan struct{} // closed to finalize
	done   chan struct{} // closed when that is done
}

var errEnded = errors.New("MPI was ended when the last group was closed, and cannot be started again in this process")

const threadMultiple = 3

// start starts MPI if that has not been done.
func start(f Family) (*library, error) {
	p := &process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, errEnded
	}
	if !p.tried {
		p.tried = true
		p.end, p.done = make(chan struct{}), make(chan struct{})
		ready := make(chan struct{})
		go func() { // the thread that starts MPI must be the one that ends it
			runtime.LockOSThread()
			p.lib, p.err = initialize(f)
			close(ready)
			if p.err != nil {
				return
			}
			<-p.end
			p.lib.finalize()
			close(p.done)
		}()
		<-ready
	}
	if p.err != nil {
		return nil, p.err
	}
	p.groups++
	return p.lib, nil
}

func initialize(f Family) (*library, error) {
	l, err := open(f)
	if err != nil {
		return nil, err
	}
	provided := new(int32)
	defer keepSignals()()
	if err := l.check("MPI_Init_thread", l.initThread(nil, nil, threadMultiple, provided)); err != nil {
		return nil, err
	}
	if *provided < threadMultiple {
		return nil, fmt.Errorf("%s provides thread level %d and Locus needs %d (MPI_THREAD_MULTIPLE)", l.version, *provided, threadMultiple)
	}
	return l, l.check("MPI_Comm_set_errhandler", l.setErrHandler(l.world, l.errorsReturn))
}

// stop ends MPI when the last group is closed, unless a call was left behind.
func stop() {
	p := &process
	p.mu.Lock()
	p.groups--
	last := p.groups == 0 && !p.lost && !p.ended
	if last {
		p.ended = true
	}
	p.mu.Unlock()
	if !last {
		return
	}
	close(p.end)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second): // it waits for ranks that do not end
	}
}

// retain notes another group.
func retain() {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.groups++
}

// lose notes that MPI must not be finalized.
func lose() {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.lost = true
}

// Found describes a library without starting it.
type Found struct {
	Path, Version string
	Family        Family
}

// Find looks for the library that would be used.
func Find(f Family) (Found, error) {
	l, err := open(f)
	if err != nil {
		return Found{}, err
	}
	return Found{l.path, l.version, l.family}, nil
}
