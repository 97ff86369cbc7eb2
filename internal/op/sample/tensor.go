package sample

import (
	"encoding/binary"
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
)

// Tensor is an operand with its values, in host memory.
type Tensor struct {
	DType   dtype.DType
	Shape   []int
	Strides []int  // elements
	Offset  int    // elements
	Bytes   []byte // nil for a constant
	Bits    uint64 // a constant's value

	// The values in order: Ints for integers and bools (0 or 1), Floats for the rest.
	Ints   []int64
	Floats []float64
}

// Tensor makes the operand's values from key. What lies in its memory between
// the elements is poison that a kernel must not read: NaN, or large integers.
func (o Operand) Tensor(key uint64) Tensor {
	strides, offset, size := o.Layout.place(o.Shape, key)
	t := Tensor{DType: o.DType, Shape: o.Shape, Strides: strides, Offset: offset}
	n := op.Elements(o.Shape)
	g := newNumbers(key, n)
	if r := len(o.Shape); r >= 2 {
		g.rows, g.columns = o.Shape[r-2], o.Shape[r-1]
	}
	mem := make([]byte, size*o.DType.Size())
	for i := range size {
		poison(o.DType, mem, i)
	}
	written := make(map[int]int) // broadcast elements have one place and many indices
	broadcast := o.Layout >= BroadcastFirst && o.Layout <= Constant
	if o.DType.IsFloat() {
		t.Floats = make([]float64, n)
	} else {
		t.Ints = make([]int64, n)
	}
	walk(o.Shape, strides, offset, func(i, p int) {
		if broadcast {
			if first, ok := written[p]; ok {
				if t.Floats != nil {
					t.Floats[i] = t.Floats[first]
				} else {
					t.Ints[i] = t.Ints[first]
				}
				return
			}
			written[p] = i
		}
		if t.Floats != nil {
			t.Floats[i] = PutFloat(o.DType, mem, p, o.Domain.float(o.DType, g, i))
		} else {
			t.Ints[i] = o.Domain.integer(o.DType, g, i, o.Limit)
			PutInt(o.DType, mem, p, t.Ints[i])
		}
	})
	if o.Layout == Constant {
		if n > 0 {
			var bits [8]byte
			copy(bits[:], mem)
			t.Bits = binary.NativeEndian.Uint64(bits[:])
			if isBigEndian {
				t.Bits >>= 64 - 8*o.DType.Size()
			}
		}
		return t
	}
	t.Bytes = mem
	return t
}

var isBigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// poison fills element i with what shows up in a result that used it.
func poison(d dtype.DType, mem []byte, i int) {
	if d.IsFloat() {
		PutFloat(d, mem, i, math.NaN())
	} else if d == dtype.Bool {
		PutInt(d, mem, i, int64(i%2))
	} else {
		PutInt(d, mem, i, 113)
	}
}

// PutFloat rounds x to type d, stores it as element i of mem, and returns what
// was stored.
func PutFloat(d dtype.DType, mem []byte, i int, x float64) float64 {
	elem.PutBits(d, mem[d.Size()*i:], elem.Bits(d, x))
	return elem.Round(d, x)
}

// PutInt stores x, wrapped to type d, as element i of mem.
func PutInt(d dtype.DType, mem []byte, i int, x int64) {
	e := binary.NativeEndian
	switch d {
	case dtype.Bool, dtype.Uint8:
		mem[i] = uint8(x)
	case dtype.Int32:
		e.PutUint32(mem[4*i:], uint32(x))
	case dtype.Int64:
		e.PutUint64(mem[8*i:], uint64(x))
	default:
		panic("sample: not an integer: " + d.String())
	}
}

// GetFloat reads element i of mem, of a floating-point type.
func GetFloat(d dtype.DType, mem []byte, i int) float64 { return elem.Get(d, mem[d.Size()*i:]) }

// GetInt reads element i of mem, of an integer type or bool.
func GetInt(d dtype.DType, mem []byte, i int) int64 {
	e := binary.NativeEndian
	switch d {
	case dtype.Bool, dtype.Uint8:
		return int64(mem[i])
	case dtype.Int32:
		return int64(int32(e.Uint32(mem[4*i:])))
	case dtype.Int64:
		return int64(e.Uint64(mem[8*i:]))
	}
	panic("sample: not an integer: " + d.String())
}
