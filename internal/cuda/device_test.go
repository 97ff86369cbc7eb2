//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/dynlib"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

// fakeDevices are those of the fake driver that was made last.
var fakeDevices []*Device

func openFake(t *testing.T, cards int) (*fake, []*Device) {
	t.Helper()
	for _, d := range fakeDevices { // what they wait for is the driver that goes
		if !eventually(func() bool { d.mu.Lock(); defer d.mu.Unlock(); return !d.flights.awaited }) {
			t.Fatal("somebody still waits for a copy of an earlier test")
		}
	}
	f, drv := newFake()
	f.cards = int32(cards)
	devices, err := drv.open()
	if err != nil {
		t.Fatal(err)
	}
	fakeDevices = devices
	for _, d := range devices { // there is nothing behind the handles to compute with
		d.libs.blas, d.libs.dnn = &blas{unavailable: true}, &dnn{unavailable: true}
		d.libs.fft, d.libs.solver = &fft{unavailable: true}, &solver{unavailable: true}
	}
	return f, devices
}

func TestOpenNamesCauseAndRemedy(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken func(f *fake)
		want   []string
	}{
		{"no card", func(f *fake) { f.results["cuInit"] = 100 }, []string{"cuInit", "CUDA_ERROR_NO_DEVICE", "shows no card"}},
		{"stub", func(f *fake) { f.results["cuInit"] = 34 }, []string{"CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"}},
		{"updated", func(f *fake) { f.results["cuInit"] = 803 }, []string{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine"}},
		{"unknown", func(f *fake) { f.results["cuInit"] = 12345 }, []string{"CUDA error 12345", "the driver's own words"}},
		{"too old", func(f *fake) { f.version = 10020 }, []string{"CUDA 10.2", "update it", "11.0"}},
		{"none", func(f *fake) { f.cards = 0 }, []string{"CUDA_ERROR_NO_DEVICE"}},
		{"old card", func(f *fake) { f.major = 6 }, []string{"compute capability 7.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, drv := newFake()
			c.broken(f)
			devices, err := drv.open()
			if err == nil {
				t.Fatalf("gave %d devices", len(devices))
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

// A card that another process holds is found when it is first used.
func TestBusyCard(t *testing.T) {
	f, devices := openFake(t, 1)
	f.results["cuDevicePrimaryCtxRetain"] = 46
	for range 2 {
		_, err := devices[0].Allocate(100)
		if err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("a busy card gave %v", err)
		}
	}
}

func TestDeviceNodes(t *testing.T) {
	dir := t.TempDir()
	if got := deviceNodes(dir); !strings.Contains(got, "nvidia-modprobe") {
		t.Errorf("missing: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidiactl"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 { // root may open anything
		if got := deviceNodes(dir); !strings.Contains(got, "permission") {
			t.Errorf("no permission: %q", got)
		}
	}
}

func TestLibraryErrors(t *testing.T) {
	l := nvidia("a library", "LOCUS_TEST_LIBRARY", []string{"libdoesnotexist.so.13", "libdoesnotexist.so.12"}, []string{"x/lib"})
	if _, err := l.open(12); err == nil || !strings.Contains(err.Error(), "libdoesnotexist.so.13") || !strings.Contains(err.Error(), "libdoesnotexist.so.12") {
		t.Errorf("not every path that was tried is named: %v", err)
	}
	if c := l.at(12).Candidates(); c[0] != "libdoesnotexist.so.12" {
		t.Errorf("the driver's version is not first: %v", c)
	}
	t.Setenv("LOCUS_TEST_LIBRARY", "off")
	if _, err := l.open(12); !errors.Is(err, dynlib.ErrOff) {
		t.Errorf("off gave %v", err)
	}
	file := filepath.Join(t.TempDir(), "not-a-library.so")
	if err := os.WriteFile(file, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCUS_TEST_LIBRARY", file)
	if _, err := l.open(12); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("an invalid file gave %v", err)
	}
	// Folders of virtual environments are searched, stubs never.
	venv := t.TempDir()
	for _, dir := range []string{"lib/python3.11/site-packages/nvidia/x/lib", "stubs/lib64"} {
		if err := os.MkdirAll(filepath.Join(venv, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(venv, dir, "libdoesnotexist.so.12"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("VIRTUAL_ENV", venv)
	t.Setenv("CUDA_HOME", filepath.Join(venv, "stubs"))
	found := strings.Join(l.at(12).Candidates(), "\n")
	if !strings.Contains(found, "site-packages/nvidia/x/lib/libdoesnotexist.so.12") || strings.Contains(found, "/stubs/") {
		t.Errorf("candidates:\n%s", found)
	}
}

func block(t *testing.T, d *Device, n int) *memory.Block {
	t.Helper()
	b, err := memory.NewPool(d).Allocate(n, func() memory.Label { return memory.Label{} })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A fault that breaks the context is reported once with the op, and then by
// every call as a lost device.
func TestLostDevice(t *testing.T) {
	for _, r := range []Result{214, 220, 226, 700, 719, 810, 999} { // memory, NVLink, contained, ours, ours, MPS, anything
		t.Run(r.String(), func(t *testing.T) { testLostDevice(t, r) })
	}
}

func testLostDevice(t *testing.T, r Result) {
	f, devices := openFake(t, 1)
	d := devices[0]
	b := block(t, d, 1024)
	call := &backend.Call{Op: op.Full, Attrs: op.Create{DType: dtype.Float32, Shape: op.DimsOf([]int{6})},
		Out: backend.View{Block: b, Shape: []int{6}, Strides: []int{1}, DType: dtype.Float32}}
	if err := d.Run(call); err != nil {
		t.Fatal(err)
	}
	f.results["cuStreamSynchronize"] = r
	var async *backend.AsyncError
	if err := d.Synchronize(); !errors.As(err, &async) || async.Op != op.Full || !errors.Is(err, op.ErrDeviceLost) {
		t.Errorf("the fault was reported as %v", err)
	}
	f.results["cuStreamSynchronize"] = success
	_, allocate := d.Allocate(10)
	for name, err := range map[string]error{"Run": d.Run(call), "CopyIn": d.CopyIn(b, []byte{1}, nil), "CopyOut": d.CopyOut([]byte{1}, b, 0),
		"Synchronize": d.Synchronize(), "Allocate": allocate} {
		var driver *Error
		if !errors.Is(err, op.ErrDeviceLost) || errors.As(err, &async) || !errors.As(err, &driver) || driver.Result != r {
			t.Errorf("%s on a lost device gave %v", name, err)
		}
	}
	d.Free(b.Region) // does nothing
	if e := d.Record(); !e.Done() {
		t.Error("an event of a lost device is not done")
	}
}

func TestIndexErrorIsReportedOnce(t *testing.T) {
	_, devices := openFake(t, 1)
	d := devices[0]
	block(t, d, 10)
	*d.flag = flag{op: uint32(op.Take), index: 9, limit: 6}
	var async *backend.AsyncError
	if err := d.Synchronize(); !errors.As(err, &async) || async.Op != op.Take || !errors.Is(err, op.ErrIndex) || !strings.Contains(err.Error(), "9") {
		t.Errorf("reported as %v", err)
	}
	if err := d.Synchronize(); err != nil {
		t.Errorf("reported again: %v", err)
	}
}

func TestMemoryLimits(t *testing.T) {
	f, devices := openFake(t, 1)
	if _, err := devices[0].Allocate(int(f.total) + 1); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("more than there is: %v", err)
	}
	if _, err := devices[0].Split(f.total, 1); err == nil {
		t.Error("shares larger than the card")
	}
	shares, err := devices[0].Split(1<<20, 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	r, err := shares[0].Allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if total, free := shares[0].Memory(); total != 1<<20 || free != 0 {
		t.Errorf("a full share has %d of %d free", free, total)
	}
	if _, err := shares[0].Allocate(1); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("beyond the cap: %v", err)
	}
	if _, err := shares[1].Allocate(1 << 20); err != nil {
		t.Errorf("the other share: %v", err)
	}
	shares[0].Free(r)
	if _, err := shares[0].Allocate(1 << 20); err != nil {
		t.Errorf("after freeing: %v", err)
	}
}

// A training loop's worth of calls leaves no memory behind, on the fake and,
// where there is one, on a real GPU.
func TestMemoryStaysFlat(t *testing.T) {
	_, devices := openFake(t, 1)
	flat(t, devices[0], 1000)
	if real, err := Open(); err == nil {
		flat(t, real[0], 10000)
	} else {
		t.Log("only on the fake driver:", err)
	}
}

func flat(t *testing.T, d *Device, steps int) {
	pool := memory.NewPool(d)
	host := make([]byte, 4)
	step := func() {
		a, b := make([]*memory.Block, 2), backend.View{Shape: []int{64, 100}, Strides: []int{100, 1}, DType: dtype.Float32}
		for i := range a {
			var err error
			if a[i], err = pool.Allocate(64*100*4, func() memory.Label { return memory.Label{} }); err != nil {
				t.Fatal(err)
			}
			defer a[i].Free()
		}
		x, y := b, b
		x.Block, y.Block = a[0], a[1]
		for _, c := range []*backend.Call{
			{Op: op.Full, Attrs: op.Create{DType: b.DType, Shape: op.DimsOf(b.Shape), Value: 1}, Out: x},
			{Op: op.Exp, In: []backend.View{x}, Out: y},
			{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0, 1)}, In: []backend.View{y}, Out: backend.View{Block: a[0], Shape: []int{1, 1}, Strides: []int{1, 1}, DType: b.DType}},
		} {
			if err := d.Run(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.CopyOut(host, a[0], 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		step()
	}
	_, before := d.Memory()
	for range steps {
		step()
	}
	if _, after := d.Memory(); after < before {
		t.Errorf("%d bytes are gone after %d steps", before-after, steps)
	}
	if s := pool.Stats(); s.InUse != 0 || s.Cached > 1<<20 {
		t.Errorf("the pool holds %+v", s)
	}
	pool.Trim()
}

// Copies between cards are used only where one has arrived.
func TestPeerCopiesAreVerified(t *testing.T) {
	for _, lies := range []bool{false, true} {
		f, devices := openFake(t, 2)
		f.peerLies = lies
		a, b := devices[0], devices[1]
		src, dst := block(t, a, 64), block(t, b, 64)
		if err := a.CopyIn(src, []byte("over the bus"), nil); err != nil {
			t.Fatal(err)
		}
		ok, err := b.CopyFrom(dst, a, src, 12)
		if err != nil || ok == lies {
			t.Fatalf("with lies %v: %v, %v", lies, ok, err)
		}
		if got := make([]byte, 12); ok {
			if err := b.CopyOut(got, dst, 0); err != nil || string(got) != "over the bus" {
				t.Errorf("%q arrived (%v)", got, err)
			}
		}
		if ok, _ := b.CopyFrom(dst, b, dst, 4); ok {
			t.Error("a copy from itself")
		}
	}
}

// Where there is no room to try a copy between cards, the answer is no, but not for good,
// and what was taken for it is given back.
func TestPeerCopiesWithoutRoom(t *testing.T) {
	f, devices := openFake(t, 2)
	a, b := devices[0], devices[1]
	src, dst := block(t, a, 64), block(t, b, 64)
	if err := a.CopyIn(src, []byte("over the bus"), nil); err != nil {
		t.Fatal(err)
	}
	f.total = f.used + peerTrial // room for one side
	for range 2 {
		if ok, err := b.CopyFrom(dst, a, src, 12); ok || err != nil {
			t.Fatalf("without room: %v, %v", ok, err)
		}
	}
	f.total = 1 << 30
	if ok, err := b.CopyFrom(dst, a, src, 12); !ok || err != nil {
		t.Errorf("with room: %v, %v", ok, err)
	}
	for _, p := range []*memory.Pool{src.Pool(), dst.Pool()} {
		if s := p.Stats(); s.InUse != 64 {
			t.Errorf("%+v", s)
		}
	}
}

func TestKernelThatDoesNotLoadIsNamed(t *testing.T) {
	f, devices := openFake(t, 1)
	b := block(t, devices[0], 64)
	f.results["cuModuleLoadDataEx"] = 222
	v := backend.View{Block: b, Shape: []int{4}, Strides: []int{1}, DType: dtype.Float32}
	err := devices[0].Run(&backend.Call{Op: op.Exp, In: []backend.View{v}, Out: v})
	if err == nil || !strings.Contains(err.Error(), "exp_f32") || !strings.Contains(err.Error(), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION") {
		t.Errorf("%v", err)
	}
}

// Every op, element type and layout that the table allows finds its kernels in
// the PTX, with parameters of the size the kernels expect, and launches them
// with a grid that the hardware takes.
func TestEveryCallFindsItsKernels(t *testing.T) {
	f, devices := openFake(t, 1)
	d := devices[0]
	pool := memory.NewPool(d)
	for _, def := range op.All() {
		if def.Family == op.ViewFamily {
			continue
		}
		for _, typ := range sample.DTypes(def.ID) {
			if !d.Supports(def.ID, typ) {
				if def.Family != op.FusedFamily {
					t.Errorf("%s of %s has no runner: set runners[op.…] in the file of its family", def.Name, typ)
				}
				continue
			}
			samples := sample.Of(def.ID, typ)
			every := len(samples)/20 + 1 // the suite runs all of them on a real GPU
			for i, c := range samples {
				if c.Big || i%every != 0 || d.Detours(&backend.Call{Op: c.Op, Attrs: c.Attrs, In: make([]backend.View, len(c.In))}) {
					continue // what is computed in main memory needs elements
				}
				if err := try(d, pool, c); err != nil {
					if strings.Contains(err.Error(), "there is no kernel") || errors.Is(err, fs.ErrNotExist) { // nor for other samples of the type
						t.Errorf("%s of %s: %v: add it to kernels/*.cu and generate (CONTRIBUTING.md, CUDA kernels)", def, typ, err)
						break
					}
					t.Errorf("%s: %v", c, err)
				}
			}
		}
	}
	for _, l := range f.launches {
		if l.grid[0] < 1 || l.grid[0] >= 1<<31 || l.grid[1] < 1 || l.grid[1] > 65535 || l.grid[2] < 1 || l.grid[2] > 65535 || l.block < 1 || l.block > 1024 {
			t.Errorf("%s is launched with grid %v and %d threads", l.kernel, l.grid, l.block)
		}
	}
	if len(f.launches) < 5000 || len(f.ran("add_")) == 0 {
		t.Errorf("only %d launches", len(f.launches))
	}
}

func try(d *Device, pool *memory.Pool, s sample.Sample) error {
	c := &backend.Call{Op: s.Op, Attrs: s.Attrs}
	var blocks []*memory.Block
	defer func() {
		for _, b := range blocks {
			b.Free()
		}
	}()
	alloc := func(n int) (*memory.Block, error) {
		b, err := pool.Allocate(n, func() memory.Label { return memory.Label{} })
		blocks = append(blocks, b)
		return b, err
	}
	for _, x := range s.Tensors() {
		v := backend.View{Offset: x.Offset, Shape: x.Shape, Strides: x.Strides, DType: x.DType, Bits: x.Bits}
		if x.Bytes != nil {
			b, err := alloc(len(x.Bytes))
			if err != nil {
				return err
			}
			v.Block = b
		}
		c.In = append(c.In, v)
	}
	b, err := alloc(op.Elements(s.Out.Shape) * s.Out.DType.Size())
	if err != nil {
		return err
	}
	c.Out = backend.View{Block: b, Shape: s.Out.Shape, Strides: op.Strides(s.Out.Shape), DType: s.Out.DType}
	if def := op.Get(s.Op); def.More != nil && !def.Saves {
		for _, m := range def.More(s.Attrs, s.Specs()) {
			b, err := alloc(op.Elements(m.Shape) * m.DType.Size())
			if err != nil {
				return err
			}
			c.More = append(c.More, backend.View{Block: b, Shape: m.Shape, Strides: op.Strides(m.Shape), DType: m.DType})
		}
	}
	return d.Run(c)
}

func TestCallPassesAllArguments(t *testing.T) {
	sum := fakeSum()
	c := calls.Get().(*call) // on the heap: a callback may move the stack
	c.fn = sum
	for i := range c.a {
		c.a[i] = uintptr(1) << i
	}
	if got := c.do(); got != 1<<12-1 {
		t.Errorf("12 arguments add up to %#x", got)
	}
}
