package optest

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

// Array is a recorded tensor.
type Array struct {
	DType locus.DType
	Shape []int
	Data  []byte // elements in order, as in memory
	Main  bool   // an operand that has the case's element type, stored as float32 where that is a float
	Grad  bool   // an operand with Main that has a gradient
}

// Len is the number of elements.
func (a *Array) Len() int { return op.Elements(a.Shape) }

// Case is one op × element type × sample, with PyTorch's results.
type Case struct {
	Op     string
	Sample int
	DType  locus.DType
	In     []Array
	Out    []Array
	Grad   []Array // one per operand with Grad; nil where none was recorded
	Smooth bool    // away from kinks and poles: fit for finite differences
	Upcast bool    // PyTorch has no kernel for this type; computed in float32 and rounded
	attrs  map[string]any
}

func (c *Case) String() string {
	return fmt.Sprintf("%s/%s/%d", c.Op, c.DType, c.Sample)
}

// Records are a file of recorded cases.
type Records struct {
	Torch string // PyTorch's version
	Cases []*Case
}

type arrayHeader struct {
	T string
	S []int
	O int
	M int
}

// readFile reads a file that testdata/recorder.py wrote: the header into v, and
// the elements.
func readFile(path string, v any) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	if len(all) < 4 || int(binary.LittleEndian.Uint32(all)) > len(all)-4 {
		return nil, fmt.Errorf("%s is cut short", path)
	}
	head := 4 + int(binary.LittleEndian.Uint32(all))
	return all[head:], json.Unmarshal(all[4:head], v)
}

func (h arrayHeader) array(blob []byte) (Array, error) {
	t, err := dtype.Parse(h.T)
	if err != nil {
		return Array{}, err
	}
	n := op.Elements(h.S) * t.Size()
	if h.O+n > len(blob) {
		return Array{}, fmt.Errorf("elements at %d are beyond the end", h.O)
	}
	return Array{DType: t, Shape: h.S, Data: blob[h.O : h.O+n], Main: h.M != 0, Grad: h.M == 1}, nil
}

// Load reads recorded cases of ops.
func Load(path string) (*Records, error) {
	var header struct {
		Torch string
		Cases []struct {
			Op         string
			N          int
			T          string
			A          map[string]any
			In, Out, G []arrayHeader
			Smooth, Up int
		}
	}
	blob, err := readFile(path, &header)
	if err != nil {
		return nil, err
	}
	r := &Records{Torch: header.Torch}
	for _, h := range header.Cases {
		c := &Case{Op: h.Op, Sample: h.N, Smooth: h.Smooth != 0, Upcast: h.Up != 0, attrs: h.A}
		if c.DType, err = dtype.Parse(h.T); err != nil {
			return nil, err
		}
		for _, l := range []struct {
			from []arrayHeader
			to   *[]Array
		}{{h.In, &c.In}, {h.Out, &c.Out}, {h.G, &c.Grad}} {
			for _, ah := range l.from {
				a, err := ah.array(blob)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", path, c, err)
				}
				*l.to = append(*l.to, a)
			}
		}
		r.Cases = append(r.Cases, c)
	}
	return r, nil
}

// Tensor makes the recorded tensor on a device.
func (a *Array) Tensor(d locus.Device) *locus.Tensor {
	shape := slices.Clone(a.Shape)
	if a.Len() == 0 {
		return d.As(a.DType).Zeros(shape...)
	}
	data := slices.Clone(a.Data) // aligned
	return d.From(elem.Slice(a.DType, data)).Reshape(shape...)
}

// Values returns the elements as float64.
func (a *Array) Values() []float64 {
	data, size := slices.Clone(a.Data), a.DType.Size() // aligned
	out := make([]float64, a.Len())
	for i := range out {
		out[i] = elem.Get(a.DType, data[size*i:])
	}
	return out
}

// Inputs makes the case's operands on a device; those with the case's element
// type have type as.
func (c *Case) Inputs(d locus.Device, as locus.DType) []*locus.Tensor {
	in := make([]*locus.Tensor, len(c.In))
	for i := range c.In {
		in[i] = c.In[i].Tensor(d)
		if c.In[i].Main {
			in[i] = in[i].Cast(as)
		}
	}
	return in
}

// Call calls the op with the given operands and the case's attributes.
func (c *Case) Call(o *Op, d locus.Device, in []*locus.Tensor) []*locus.Tensor {
	return o.Run(&Call{Device: d, DType: c.DType, In: in, attrs: c.attrs})
}

// Weight returns the weights of output k that recorded gradients belong to:
// element i is an odd sixteenth between -2 and 2, as in testdata/recorder.py.
func Weight(like *locus.Tensor, k int) *locus.Tensor {
	w := make([]float64, like.Len())
	for i := range w {
		h := uint32(i)*2654435761 + 40503*uint32(k+1)
		w[i] = (2*float64(h*2246822519>>27) - 31) / 16
	}
	return like.Device().From(w).Cast(like.DType()).Reshape(like.Shape()...)
}
