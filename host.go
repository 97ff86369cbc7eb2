package locus

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// Element is the set of Go types that tensors are filled from and read into.
type Element = dtype.Element

// From makes a tensor from a Go number, or a slice or array of any depth of bools
// or numbers, dtype.F16 and dtype.BF16 included. The element type follows the Go type
// unless chosen with As: integers of widths that tensors do not have take the
// next wider one, int8, int16 and uint16 int32, and int, uint and the others
// int64. A number makes a scalar. With a shape, the elements are arranged in it.
//
//	locus.From(3.5)
//	locus.From([][]float32{{1, 2, 3}, {4, 5, 6}})
//	locus.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
func (m Maker) From(data any, shape ...int) *Tensor {
	p := m.device.open("From")
	flat, dt, dims := flatten(data)
	if len(shape) > 0 {
		d, err := op.ResolveReshape(dims, shape)
		if err != nil {
			fail("From", err)
		}
		dims = d
	}
	if err := op.CheckShape(dims); err != nil {
		fail("From", err)
	}
	t := upload(p, op.Spec{DType: dt, Shape: dims}, flat)
	return t.Cast(m.or(dt))
}

// upload makes a tensor from bytes in host memory.
func upload(p *place, spec op.Spec, data []byte) *Tensor {
	t := allocate(p, "From", spec, nil, nil)
	transfer(HostToDevice, machine.cpu, p, len(data), func() {
		// The program may change its slice as soon as this returns: wait until it is
		// read, or give the device a copy where that is cheaper than waiting.
		const cheap = 1 << 20
		released := make(chan struct{})
		release := func() { close(released) }
		if !p.host && len(data) <= cheap {
			data, release = bytes.Clone(data), func() {}
			close(released)
		}
		if err := copyIn(p.backend, t.block, data, release); err != nil {
			fail("From", err)
		}
		<-released
	})
	return t
}

// flatten returns the elements of a number, or of a slice or array of any depth,
// as bytes.
func flatten(data any) ([]byte, DType, []int) {
	if d, ok := data.([]float32); ok { // without reflection where it is common
		return bytesOf(d), Float32, []int{len(d)}
	}
	elem := reflect.TypeOf(data)
	for elem != nil && (elem.Kind() == reflect.Slice || elem.Kind() == reflect.Array) {
		elem = elem.Elem()
	}
	dt := dtype.Invalid
	if elem != nil {
		if dt = dtype.OfValue(reflect.Zero(elem).Interface()); !dt.Valid() {
			dt = wider(elem.Kind())
		}
	}
	if !dt.Valid() {
		failf("From", ErrDType, nil, "cannot make a tensor from %T; use numbers, bools, or slices and arrays of them", data)
	}
	v := reflect.ValueOf(data)
	var dims []int
	for w := v; w.Kind() == reflect.Slice || w.Kind() == reflect.Array; {
		dims = append(dims, w.Len())
		if w.Len() == 0 {
			// Deeper sizes of an empty slice are not known: they are 0.
			for t := w.Type().Elem(); t.Kind() == reflect.Slice || t.Kind() == reflect.Array; t = t.Elem() {
				dims = append(dims, 0)
			}
			break
		}
		w = w.Index(0)
	}
	switch len(dims) {
	case 0:
		return elementsOf(reflect.Append(reflect.MakeSlice(reflect.SliceOf(elem), 0, 1), v), dt), dt, dims
	case 1:
		return elementsOf(v, dt), dt, dims
	}
	buf := make([]byte, 0, op.Elements(dims)*dt.Size())
	var walk func(w reflect.Value, depth int)
	walk = func(w reflect.Value, depth int) {
		if w.Len() != dims[depth] {
			failf("From", ErrShape, nil, "ragged slices: at depth %d one has %d elements and another %d", depth, dims[depth], w.Len())
		}
		if depth == len(dims)-1 {
			buf = append(buf, elementsOf(w, dt)...)
			return
		}
		for i := range w.Len() {
			walk(w.Index(i), depth+1)
		}
	}
	walk(v, 0)
	return buf, dt, dims
}

// wider is the element type for a Go type that tensors do not have themselves: one
// that holds all its numbers, or for the largest int64.
func wider(k reflect.Kind) DType {
	switch k {
	case reflect.Bool:
		return Bool
	case reflect.Uint8:
		return Uint8
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint16:
		return Int32
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint, reflect.Uint64:
		return Int64
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	}
	return dtype.Invalid
}

// elementsOf returns the bytes of a slice or array of elements of type dt.
func elementsOf(v reflect.Value, dt DType) []byte {
	n := v.Len()
	if n == 0 {
		return nil
	}
	to := v.Type().Elem()
	if dtype.OfValue(reflect.Zero(to).Interface()) != dt { // numbers of another width
		to = goTypes[dt]
		if dt == Int64 && v.Type().Elem().Kind() != reflect.Int {
			for i := range n {
				if x := v.Index(i); x.CanUint() && x.Uint() > math.MaxInt64 {
					failf("From", ErrDType, nil, "%d does not fit int64", x.Uint())
				}
			}
		}
	} else if to.Kind() == reflect.Int {
		to = reflect.TypeFor[int64]()
	}
	if v.Kind() == reflect.Array || int(v.Type().Elem().Size()) != dt.Size() { // of an array without an address, and of numbers of another width
		s := reflect.MakeSlice(reflect.SliceOf(to), n, n)
		for i := range n {
			s.Index(i).Set(v.Index(i).Convert(to))
		}
		v = s
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), n*dt.Size())
}

// goTypes are the Go types that From converts to.
var goTypes = map[DType]reflect.Type{Bool: reflect.TypeFor[bool](), Uint8: reflect.TypeFor[uint8](), Int32: reflect.TypeFor[int32](),
	Int64: reflect.TypeFor[int64](), Float32: reflect.TypeFor[float32](), Float64: reflect.TypeFor[float64]()}

func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// From makes a tensor on d from Go numbers: see [Maker.From].
func (d Device) From(data any, shape ...int) *Tensor { return d.maker().From(data, shape...) }

// From makes a tensor on the default device from Go numbers: see [Maker.From].
func From(data any, shape ...int) *Tensor { return DefaultDevice().From(data, shape...) }

// ToSlice copies t's elements in order to a new Go slice. T must be the Go
// type of t's element type (int or int64 for int64); [Tensor.Cast] converts.
// It waits for t to be computed.
func ToSlice[T Element](t *Tensor) []T {
	t.check("ToSlice")
	checkElements(t, *new(T))
	s := make([]T, t.Len())
	CopyToSlice(s, t)
	return s
}

// CopyToSlice copies t's elements in order to dst, which must have as many.
func CopyToSlice[T Element](dst []T, t *Tensor) {
	t.check("ToSlice")
	var zero T
	checkElements(t, zero)
	if len(dst) != t.Len() {
		failf("ToSlice", ErrShape, []*Tensor{t}, "the slice has %d elements, the tensor %d", len(dst), t.Len())
	}
	if unsafe.Sizeof(zero) != uintptr(t.dtype.Size()) { // int where int is 32 bits
		wide := make([]int64, len(dst))
		t.download(bytesOf(wide))
		for i, v := range wide {
			reflect.ValueOf(&dst[i]).Elem().SetInt(v)
		}
		return
	}
	t.download(bytesOf(dst))
}

// WithSlice calls f with t's elements in order, without copying them if they are
// contiguous in main memory. Elements on a GPU are copied to page-locked memory, at
// the full speed of the bus, which is freed after the call. f must neither change
// the slice nor keep it. T must be the Go type of t's element type, as for
// [ToSlice].
func WithSlice[T Element](t *Tensor, f func(s []T)) {
	t.check("WithSlice")
	gate.Check("WithSlice", gate.Given("the function", f))
	var zero T
	checkElements(t, zero)
	if unsafe.Sizeof(zero) != uintptr(t.dtype.Size()) { // int where int is 32 bits
		f(ToSlice[T](t))
		return
	}
	t.single("WithSlice")
	readable("WithSlice")
	c := t.detach()
	if !c.place.host {
		c = c.Pin()
		defer c.Free()
	} else if !c.IsContiguous() {
		c = c.contiguous()
		defer c.Free()
	}
	c.hold("WithSlice") // whoever frees t meanwhile does not pull it away
	defer c.letGo()
	f(unsafe.Slice((*T)(unsafe.Add(c.block.Ptr, c.offset*c.dtype.Size())), c.Len()))
}

// checkElements refuses to read t as elements of another type than it has.
func checkElements(t *Tensor, like any) {
	if want := dtype.OfValue(like); want != t.dtype {
		fail("ToSlice", &op.Problem{Kind: ErrDType, Msg: fmt.Sprintf("elements are %s, not %T", t.dtype, like),
			Fix: fmt.Sprintf("convert first: .Cast(locus.%s)", elem.GoName(want))}, t)
	}
}

// download copies t's elements in order to host memory and waits for them.
func (t *Tensor) download(dst []byte) {
	t.single("ToSlice")
	readable("ToSlice")
	c := t.contiguous()
	if c != t {
		defer c.Free()
	}
	c.hold("ToSlice")
	defer c.letGo()
	transfer(DeviceToHost, t.place, machine.cpu, len(dst), func() {
		if len(dst) == 0 {
			return
		}
		if err := t.place.backend.CopyOut(dst, c.block, c.offset*c.dtype.Size()); err != nil {
			fail("ToSlice", err)
		}
	})
}

// Item returns the value of a tensor with one element. It waits for it.
func (t *Tensor) Item() float64 {
	t.check("Item")
	if t.Len() != 1 {
		fail("Item", &op.Problem{Kind: ErrShape, Msg: fmt.Sprintf("the tensor has %d elements; Item wants one", t.Len()),
			Fix: "reduce it first, for example .Mean(), or read all with locus.ToSlice"}, t)
	}
	t.single("Item")
	var buf [8]byte
	b := buf[:t.dtype.Size()]
	t.download(b)
	return elem.Get(t.dtype, b)
}

// Int returns the value of a tensor of integers with one element, exactly.
func (t *Tensor) Int() int64 {
	t.check("Int")
	if t.dtype.IsFloat() {
		failf("Int", ErrDType, []*Tensor{t}, "elements are %s, not integers", t.dtype)
	}
	if t.Len() != 1 {
		failf("Int", ErrShape, []*Tensor{t}, "the tensor has %d elements; Int wants one", t.Len())
	}
	t.single("Int")
	return ToSlice[int64](t.detach().Cast(Int64).Reshape(1))[0]
}
