package weights

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

// The files in testdata were written by bench/interchange.py with Python 3.11,
// torch 2.15.0, numpy 2.4.6, safetensors 0.8.0 and ml_dtypes 0.6.0; the script
// runs this test on fresh ones and reads what it writes.

var interchangeShapes = map[string][]int{"scalar": {}, "vector": {7}, "empty": {0, 3}, "cube": {3, 4, 5}}

// interchangeTensor makes the numbers that the script's values function makes.
func interchangeTensor(d locus.Device, dt locus.DType, shape []int) *locus.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	v := make([]float64, n)
	for i := range v {
		x := i * 7 % 41
		switch {
		case dt == dtype.Bool && x%3 == 0:
			v[i] = 1
		case dt == dtype.Bool:
		case dt == dtype.Uint8:
			v[i] = float64(x)
		case dt.IsFloat():
			v[i] = float64(x-20) / 4
		default:
			v[i] = float64(x - 20)
		}
	}
	if n == 7 && dt.IsFloat() {
		copy(v, []float64{math.Inf(1), math.Inf(-1), math.Float64frombits(0x7ff8 << 48), math.Copysign(0, -1)})
	}
	return d.From(v).Cast(dt).Reshape(shape...)
}

func interchangeTensors(d locus.Device) map[string]*locus.Tensor {
	all := map[string]*locus.Tensor{}
	for _, dt := range dtype.All {
		for name, shape := range interchangeShapes {
			all[dt.String()+"."+name] = interchangeTensor(d, dt, shape)
		}
	}
	return all
}

var interchangeMetadata = map[string]string{"format": "pt", "note": "ünïcode \"quoted\"\n"}

func TestInterchange(t *testing.T) {
	dir := os.Getenv("LOCUS_INTERCHANGE")
	if dir == "" {
		dir = "testdata"
	}
	want := interchangeTensors(locus.CPU())
	for _, c := range []struct {
		file string
		only string // one tensor of want, or all
		n    int
	}{
		{"python.safetensors", "", 32},
		{"python.npz", "", 28}, // NumPy has no bfloat16
		{"python-compressed.npz", "", 28},
		{"python.npy", "float32.cube", 1},
		{"python-fortran.npy", "float32.cube", 1},
		{"python-bigendian.npy", "float32.cube", 1},
		{"python-version2.npy", "float32.cube", 1},
		{"python-bfloat16.npy", "bfloat16.cube", 1},
	} {
		for _, d := range []locus.Device{locus.CPU(), virtualGPU()} {
			path := filepath.Join(dir, c.file)
			if _, err := os.Stat(path); c.file == "python-bfloat16.npy" && err != nil {
				t.Logf("%s is not there: Python had no ml_dtypes", c.file)
				continue
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if f.Len() != c.n {
				t.Errorf("%s has %d tensors, want %d", c.file, f.Len(), c.n)
			}
			for _, name := range f.Names() {
				got, err := f.Load(name, d)
				if err != nil {
					t.Error(err)
					continue
				}
				if got.Device() != d {
					t.Errorf("%s: %s was loaded to %s, not %s", c.file, name, got.Device(), d)
				}
				key := name
				if c.only != "" {
					key = c.only
				}
				requireSame(t, c.file+": "+key, got, want[key])
			}
			if f.Format() == Safetensors {
				for k, v := range interchangeMetadata {
					if got := f.Metadata()[k]; got != v {
						t.Errorf("metadata %q is %q, want %q", k, got, v)
					}
				}
			}
			f.Close()
		}
	}
	network := networkOutputs(t, dir)
	if dir == "testdata" {
		dir = t.TempDir()
	}
	if err := Save(filepath.Join(dir, "locus-mlp.safetensors"), network, nil); err != nil {
		t.Error(err)
	}
	if err := Save(filepath.Join(dir, "locus.safetensors"), want, interchangeMetadata); err != nil {
		t.Error(err)
	}
	if err := SaveNPZ(filepath.Join(dir, "locus.npz"), want); err != nil {
		t.Error(err)
	}
	if err := SaveNPY(filepath.Join(dir, "locus.npy"), want["float32.cube"]); err != nil {
		t.Error(err)
	}
}

// networkOutputs loads a network that PyTorch saved with an input and its
// output, and makes sure that it gives the same here. It returns another
// network with its input and output, for PyTorch to compare.
func networkOutputs(t *testing.T, dir string) map[string]*locus.Tensor {
	t.Helper()
	forward := func(p map[string]*locus.Tensor) *locus.Tensor {
		hidden := p["x"].MatMul(p["0.weight"].T()).Add(p["0.bias"]).Relu()
		return hidden.MatMul(p["2.weight"].T()).Add(p["2.bias"])
	}
	f, err := Open(filepath.Join(dir, "python-mlp.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := map[string]*locus.Tensor{}
	for i, d := range []locus.Device{locus.CPU(), virtualGPU()} {
		p, err := f.LoadAll(d)
		if err != nil {
			t.Fatal(err)
		}
		if worst := forward(p).Sub(p["y"]).Abs().Max().Item(); !(worst < 1e-5) {
			t.Errorf("on %s the outputs differ by %v", d, worst)
		}
		if i == 0 {
			for name, x := range p {
				other[name] = x.Mul(0.5)
			}
		}
	}
	other["y"] = forward(other)
	return other
}

// requireSame compares shape, element type and every bit.
func requireSame(t *testing.T, what string, got, want *locus.Tensor) {
	t.Helper()
	if want == nil {
		t.Errorf("%s: not wanted", what)
		return
	}
	if g, w := SpecOf(got).String(), SpecOf(want).String(); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
		return
	}
	if string(rawBytes(t, got)) != string(rawBytes(t, want)) {
		t.Errorf("%s: the elements differ\n%v\n%v", what, got, want)
	}
}

func rawBytes(t *testing.T, x *locus.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeTensor(&b, x, aligned(64)); err != nil { // many chunks
		t.Fatal(err)
	}
	return b.Bytes()
}

// virtualGPU returns a GPU that every machine has.
var virtualGPU = sync.OnceValue(func() locus.Device { return locus.AddVirtualGPUs(1, 256<<20)[0] })
