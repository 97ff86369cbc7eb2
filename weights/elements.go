package weights

import (
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
)

// bigEndian reports whether this machine stores the high byte first.
var bigEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}()

// fileTypes are the names of the element types in files: in safetensors, and NumPy's without the
// byte order. NumPy has no bfloat16; packages that add one store it as two opaque bytes.
var fileTypes = []struct {
	dtype            locus.DType
	safetensors, npy string
}{
	{dtype.Bool, "BOOL", "b1"}, {dtype.Uint8, "U8", "u1"}, {dtype.Int32, "I32", "i4"}, {dtype.Int64, "I64", "i8"},
	{dtype.Float16, "F16", "f2"}, {dtype.BFloat16, "BF16", "V2"}, {dtype.Float32, "F32", "f4"}, {dtype.Float64, "F64", "f8"},
}

// tensor makes e on device d from its bytes, which it does not change or keep.
func (e *entry) tensor(b []byte, d locus.Device) (*locus.Tensor, error) {
	size := e.DType.Size()
	swap := size > 1 && e.big != bigEndian
	if swap || len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))%uintptr(size) != 0 {
		b = alignedCopy(b)
	}
	if swap {
		swapBytes(b, size)
	}
	if e.DType == dtype.Bool {
		for i, v := range b {
			if v > 1 {
				return nil, malformed("element %d of a bool tensor is the byte %d, not 0 or 1", i, v)
			}
		}
	}
	shape := e.Shape
	if e.fortran {
		shape = slices.Clone(shape)
		slices.Reverse(shape)
	}
	var t *locus.Tensor
	err := locus.Try(func() {
		t = d.From(elem.Slice(e.DType, b), len(b)/size).Reshape(shape...)
		if e.fortran && len(shape) > 1 {
			back := make([]int, len(shape))
			for i := range back {
				back[i] = len(shape) - 1 - i
			}
			v := t.Permute(back...)
			if c := v.Contiguous(); !c.SharesMemory(t) {
				t.Free()
				v = c
			}
			t = v
		}
	})
	return t, err
}

func as[T locus.Element](b []byte) []T {
	var zero T
	if len(b) == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}

// aligned returns n bytes that any element type may lie in.
func aligned(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
}

func alignedCopy(b []byte) []byte {
	c := aligned(len(b))
	copy(c, b)
	return c
}

// swapBytes turns the byte order of elements of the given size around.
func swapBytes(b []byte, size int) {
	for ; len(b) >= size; b = b[size:] {
		slices.Reverse(b[:size])
	}
}

// chunk is the size of the buffer that tensors are written through.
const chunk = 4 << 20

// writeTensor writes t's elements in order, little-endian, through buf.
func writeTensor(w io.Writer, t *locus.Tensor, buf []byte) (err error) {
	tryErr := locus.Try(func() {
		flat := t.Detach().Flatten()
		if !flat.SharesMemory(t) {
			defer flat.Free()
		}
		size := t.DType().Size()
		for at, step := 0, len(buf)/size; at < flat.Len() && err == nil; at += step {
			n := min(step, flat.Len()-at)
			b := buf[:n*size]
			copyOut(b, flat.Narrow(0, at, at+n))
			if bigEndian {
				swapBytes(b, size)
			}
			_, err = w.Write(b)
		}
	})
	if tryErr != nil {
		return tryErr
	}
	return err
}

// copyOut copies t's elements to b, which is aligned.
func copyOut(b []byte, t *locus.Tensor) {
	switch t.DType() {
	case dtype.Bool:
		locus.CopyToSlice(as[bool](b), t)
	case dtype.Uint8:
		locus.CopyToSlice(b, t)
	case dtype.Int32:
		locus.CopyToSlice(as[int32](b), t)
	case dtype.Int64:
		locus.CopyToSlice(as[int64](b), t)
	case dtype.Float16:
		locus.CopyToSlice(as[dtype.F16](b), t)
	case dtype.BFloat16:
		locus.CopyToSlice(as[dtype.BF16](b), t)
	case dtype.Float32:
		locus.CopyToSlice(as[float32](b), t)
	case dtype.Float64:
		locus.CopyToSlice(as[float64](b), t)
	default:
		panic(fmt.Sprintf("weights: no way to write %s", t.DType()))
	}
}

// checkTensors refuses what cannot be saved before anything is written.
func checkTensors(tensors map[string]*locus.Tensor) error {
	for name, t := range tensors {
		freed := false
		if err := locus.Try(func() { freed = t.Freed() }); err != nil { // nil or zero
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if freed {
			return fmt.Errorf("%w: tensor %q was freed", locus.ErrFreed, name)
		}
	}
	return nil
}
