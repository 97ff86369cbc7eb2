package weights

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/disk/faulty"
	"github.com/locusml/locus/internal/testio"
)

// Every element type and shape passes through every format, from any device to
// any other.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	devices := []locus.Device{locus.CPU(), virtualGPU()}
	for _, from := range devices {
		tensors := interchangeTensors(from)
		tensors["a view"] = tensors["float32.cube"].Transpose(0, 2)
		tensors["with a gradient"] = tensors["float32.cube"].RequireGrad()
		tensors["a/b.c"] = from.As(dtype.Int64).Full(1<<53+1, 2)
		for _, format := range []Format{Safetensors, NPZ} {
			path := filepath.Join(dir, "w")
			var err error
			if format == NPZ {
				err = SaveNPZ(path, tensors)
			} else {
				err = Save(path, tensors, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if f.Format() != format {
				t.Errorf("%s was taken for %s", format, f.Format())
			}
			for _, to := range devices {
				got, err := f.LoadAll(to)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != len(tensors) {
					t.Errorf("%d tensors, want %d", len(got), len(tensors))
				}
				for name, x := range got {
					requireSame(t, name, x, tensors[name])
				}
			}
			f.Close()
		}
	}
}

func TestNPYRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.npy")
	for name, x := range interchangeTensors(locus.CPU()) {
		if err := SaveNPY(path, x); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Load("", locus.CPU())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, name, got, x)
		f.Close()
	}
}

func TestSameTensorsGiveSameBytes(t *testing.T) {
	meta := map[string]string{"b": "2", "a": "1", "c": "3"}
	var first, second, npz1, npz2 bytes.Buffer
	for i, w := range []struct{ safe, npz io.Writer }{{&first, &npz1}, {&second, &npz2}} {
		tensors := interchangeTensors([]locus.Device{locus.CPU(), virtualGPU()}[i])
		if err := errors.Join(Write(w.safe, tensors, meta), WriteNPZ(w.npz, tensors)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) || !bytes.Equal(npz1.Bytes(), npz2.Bytes()) {
		t.Error("the bytes differ")
	}
}

// All elements must be aligned in the file: they are then copied straight from
// its pages.
func TestElementsAreAligned(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, interchangeTensors(locus.CPU()), nil); err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	at, last := int64(0), 8
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		if size := info.DType.Size(); size > last || at%int64(size) != 0 {
			t.Errorf("%s of %d bytes per element is at %d", name, size, at)
		} else {
			last = size
		}
		at += info.Bytes
	}
}

// Files of other writers may have any order.
func TestUnalignedElements(t *testing.T) {
	content := safeFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}`, 17)
	copy(content[len(content)-16:], []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40})
	path := filepath.Join(t.TempDir(), "w")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := f.Load("b", locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	if got := locus.ToSlice[float64](x); !slices.Equal(got, []float64{1, 2}) {
		t.Error(got)
	}
}

func TestMatch(t *testing.T) {
	var b bytes.Buffer
	cpu := locus.CPU()
	err := Write(&b, map[string]*locus.Tensor{"same": cpu.Ones(2), "shape": cpu.Ones(2, 3), "type": cpu.As(dtype.Int64).Ones(2),
		"extra.b": cpu.Ones(1), "extra.a": cpu.Ones(1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	err = f.Match(map[string]Spec{
		"same": {dtype.Float32, []int{2}}, "shape": {dtype.Float32, []int{3, 2}}, "type": {dtype.Float32, []int{2}},
		"b": {dtype.Float32, []int{1}}, "a": {dtype.Float32, []int{1}},
	})
	var m *MatchError
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	if !slices.Equal(m.Missing, []string{"a", "b"}) || !slices.Equal(m.Unexpected, []string{"extra.a", "extra.b"}) || len(m.Different) != 2 {
		t.Errorf("%+v", m)
	}
	for _, part := range []string{"2 missing, 2 unexpected, 2 different", "missing: a, b", "unexpected: extra.a, extra.b",
		"shape is float32 (2, 3), want float32 (3, 2)", "type is int64 (2,), want float32 (2,)", `"extra."`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	any := map[string]Spec{}
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		any[name] = Spec{Shape: info.Shape}
	}
	if err := f.Match(any); err != nil {
		t.Error(err)
	}
}

func TestMisuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	freed := locus.CPU().Ones(1 << 16)
	freed.Free()
	for name, c := range map[string]struct {
		tensors  map[string]*locus.Tensor
		metadata map[string]string
		kind     error
	}{
		"nil":            {map[string]*locus.Tensor{"a": nil}, nil, locus.ErrArgument},
		"freed":          {map[string]*locus.Tensor{"a": freed}, nil, locus.ErrFreed},
		"reserved":       {map[string]*locus.Tensor{"__metadata__": locus.CPU().Ones(1)}, nil, locus.ErrArgument},
		"name not UTF-8": {map[string]*locus.Tensor{"\xff": locus.CPU().Ones(1)}, nil, locus.ErrArgument},
		"text not UTF-8": {nil, map[string]string{"a": "\xff"}, locus.ErrArgument},
	} {
		if err := Save(path, c.tensors, c.metadata); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
			t.Errorf("%s: left %v", name, entries)
		}
	}
	if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(filepath.Dir(path)); err == nil {
		t.Error("a folder was opened")
	}
	if err := Save(path, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != 0 {
		t.Error("not empty")
	}
	if _, err := f.Load("a", locus.CPU()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if runtime.GOOS == "windows" { // which replaces no file that is open
		f.Close()
	}
	if err := Save(path, map[string]*locus.Tensor{"a": locus.CPU().Ones(1)}, nil); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load("a", locus.GPU(1000)); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
	f.Close()
	f.Close()
	if _, err := f.Load("a", locus.CPU()); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// A device that has no room for a tensor is an error, and loading goes on.
func TestLoadBeyondTheDevice(t *testing.T) {
	small := locus.AddVirtualGPUs(1, 4<<20)[0]
	path := filepath.Join(t.TempDir(), "w")
	if err := Save(path, map[string]*locus.Tensor{"large": locus.CPU().Ones(2 << 20), "small": locus.CPU().Ones(2)}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Load("large", small); !errors.Is(err, locus.ErrOutOfMemory) {
		t.Error(err)
	}
	if _, err := f.Load("small", small); err != nil {
		t.Error(err)
	}
}

// Whatever step of saving fails, the file before is intact and loads.
func TestSaveSurvivesEveryFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	old, fresh := map[string]*locus.Tensor{"w": locus.CPU().Zeros(100)}, map[string]*locus.Tensor{"w": locus.CPU().Ones(100)}
	for at := 1; ; at++ {
		if err := Save(path, old, nil); err != nil {
			t.Fatal(err)
		}
		fs := &faulty.FS{FailAt: at, Err: syscall.ENOSPC}
		err := saveFile(fs, path, func(w io.Writer) error { return writeSafetensors(w, fresh, nil) })
		if !fs.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("failure at %d: %v", at, err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatalf("failure at %d: %v", at, err)
		}
		x, err := f.Load("w", locus.CPU())
		if err != nil {
			t.Fatalf("failure at %d: %v", at, err)
		}
		if sum := x.Sum().Item(); sum != 0 && sum != 100 {
			t.Errorf("failure at %d: the sum is %v", at, sum)
		}
		f.Close()
	}
}

func TestWriteToFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	tensors := map[string]*locus.Tensor{"w": locus.CPU().Ones(10)}
	for name, err := range map[string]error{"safetensors": Write(full, tensors, nil), "npz": WriteNPZ(full, tensors), "npy": WriteNPY(full, tensors["w"])} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Saving and loading hold no second copy of the tensors in Go's memory.
func TestMemoryIsBounded(t *testing.T) {
	const n = 8 << 20 // 32 MiB each
	tensors := map[string]*locus.Tensor{"a": locus.CPU().Ones(n), "b": virtualGPU().Ones(n)}
	path := filepath.Join(t.TempDir(), "w")
	if got := testio.Allocated(func() {
		if err := Save(path, tensors, nil); err != nil {
			t.Fatal(err)
		}
	}); got > 2*chunk {
		t.Errorf("saving allocated %d bytes", got)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.source.(*plain); ok {
		t.Skip("this system does not map files: one tensor at a time is read")
	}
	x := locus.CPU().Ones(n) // so that its memory can be used again
	x.Free()
	got := testio.Allocated(func() {
		if _, err := f.Load("a", locus.CPU()); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1<<20 {
		t.Errorf("loading allocated %d bytes", got)
	}
}

func TestLoadFromManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	want := interchangeTensors(locus.CPU())
	if err := SaveNPZ(path, want); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, name := range f.Names() {
				x, err := f.Load(name, locus.CPU())
				if errors.Is(err, fs.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				requireSame(t, name, x, want[name])
			}
		})
	}
	runtime.Gosched()
	f.Close()
	wg.Wait()
}
