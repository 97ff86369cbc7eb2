package locus

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
)

// Maker makes tensors on one device, of one element type, with random numbers
// from one key. Get one from a device where the defaults do not fit:
//
//	gpu.As(locus.Int64).Zeros(3)
//	gpu.Key(key).Randn(2, 3)
type Maker struct {
	device Device
	dtype  DType
	key    Key
	keyed  bool
}

func (d Device) maker() Maker { return Maker{device: d} }

// As returns a maker of tensors of type dt on d.
func (d Device) As(dt DType) Maker { return Maker{device: d, dtype: dt} }

// Key returns a maker whose random tensors on d come from key.
func (d Device) Key(key Key) Maker { return Maker{device: d, key: key, keyed: true} }

// As returns a maker of tensors of type dt on the default device.
func As(dt DType) Maker { return DefaultDevice().As(dt) }

// As changes the element type.
func (m Maker) As(dt DType) Maker {
	m.dtype = dt
	return m
}

// Key changes the key that random tensors come from.
func (m Maker) Key(key Key) Maker {
	m.key, m.keyed = key, true
	return m
}

func (m Maker) or(def DType) DType {
	if m.dtype > Float64 {
		failf("As", ErrDType, nil, "there is no element type %s", m.dtype)
	}
	if m.dtype.Valid() {
		return m.dtype
	}
	return def
}

func checkShape(name string, shape []int) op.Dims {
	if err := op.CheckShape(shape); err != nil {
		fail(name, err)
	}
	return op.DimsOf(shape)
}

// Full makes a tensor of the given shape with every element equal to value.
// The element type is float32 unless chosen with As.
func (m Maker) Full(value float64, shape ...int) *Tensor {
	dt := m.or(Float32)
	a := op.Create{DType: dt, Shape: checkShape("Full", shape), Value: value}
	if !dt.IsFloat() {
		a.IValue = toInt("Full", value)
	}
	return create(m.device.open("Full"), op.Full, a)
}

// toInt converts a Go number that is meant for an integer tensor.
func toInt(name string, v float64) int64 {
	if v != math.Trunc(v) || math.Abs(v) > 1<<62 {
		failf(name, ErrDType, nil, "%v is not an integer, but the tensor's elements are", v)
	}
	return int64(v)
}

// Zeros makes a tensor of zeros.
func (m Maker) Zeros(shape ...int) *Tensor { return m.Full(0, shape...) }

// Ones makes a tensor of ones.
func (m Maker) Ones(shape ...int) *Tensor { return m.Full(1, shape...) }

// Arange makes the numbers 0, 1, … n-1 with Arange(n), from start to below stop
// with Arange(start, stop), in steps with Arange(start, stop, step). The
// element type is int64 if all arguments are whole, else float32.
func (m Maker) Arange(args ...float64) *Tensor {
	start, stop, step := 0.0, 0.0, 1.0
	switch len(args) {
	case 1:
		stop = args[0]
	case 2:
		start, stop = args[0], args[1]
	case 3:
		start, stop, step = args[0], args[1], args[2]
	default:
		failf("Arange", ErrArgument, nil, "takes n, or start and stop, or start, stop and step; got %d arguments", len(args))
	}
	count := math.Ceil((stop - start) / step)
	if step == 0 || math.IsNaN(count) || math.IsInf(count, 0) {
		failf("Arange", ErrArgument, nil, "cannot count from %v to %v in steps of %v", start, stop, step)
	}
	if count > 1<<40 {
		failf("Arange", ErrShape, nil, "%v elements are too many", count)
	}
	whole := start == math.Trunc(start) && step == math.Trunc(step) && stop == math.Trunc(stop)
	dt := Float32
	if whole {
		dt = Int64
	}
	dt = m.or(dt)
	a := op.Create{DType: dt, Shape: op.DimsOf([]int{max(0, int(count))}), Value: start, Step: step}
	if !dt.IsFloat() {
		a.IValue, a.IStep = toInt("Arange", start), toInt("Arange", step)
	}
	return create(m.device.open("Arange"), op.Arange, a)
}

// Linspace makes n numbers at equal distances from start to stop, both included.
func (m Maker) Linspace(start, stop float64, n int) *Tensor {
	step := 0.0
	if n > 1 {
		step = (stop - start) / float64(n-1)
	}
	a := op.Create{DType: m.or(Float32), Shape: checkShape("Linspace", []int{n}), Value: start, Step: step}
	if !a.DType.IsFloat() {
		failf("Linspace", ErrDType, nil, "makes floating-point numbers, not %s", a.DType)
	}
	return create(m.device.open("Linspace"), op.Arange, a)
}

// Eye makes the identity matrix of n rows, or with two arguments a matrix of
// that shape with ones on its diagonal.
func (m Maker) Eye(n int, columns ...int) *Tensor {
	c := n
	if len(columns) > 1 {
		failf("Eye", ErrArgument, nil, "makes a matrix: takes rows, or rows and columns; got %d sizes", 1+len(columns))
	}
	if len(columns) == 1 {
		c = columns[0]
	}
	fits(m.device.open("Eye"), "Eye", m.or(Float32), []int{n, c})
	d := Maker{device: m.device}
	rows, cols := d.Arange(float64(n)).Reshape(n, 1), d.Arange(float64(c))
	return rows.Eq(cols).Cast(m.or(Float32))
}

// The same on a device, with the defaults: see [Maker] for what each makes.

// Full makes a tensor on d with every element equal to value.
func (d Device) Full(value float64, shape ...int) *Tensor { return d.maker().Full(value, shape...) }

// Zeros makes a tensor of zeros on d.
func (d Device) Zeros(shape ...int) *Tensor { return d.maker().Zeros(shape...) }

// Ones makes a tensor of ones on d.
func (d Device) Ones(shape ...int) *Tensor { return d.maker().Ones(shape...) }

// Arange makes a range of numbers on d: see [Maker.Arange].
func (d Device) Arange(args ...float64) *Tensor { return d.maker().Arange(args...) }

// Linspace makes n numbers from start to stop on d.
func (d Device) Linspace(start, stop float64, n int) *Tensor {
	return d.maker().Linspace(start, stop, n)
}

// Eye makes an identity matrix on d.
func (d Device) Eye(n int, columns ...int) *Tensor { return d.maker().Eye(n, columns...) }

// Full makes a tensor on the default device with every element equal to value.
func Full(value float64, shape ...int) *Tensor { return DefaultDevice().Full(value, shape...) }

// Zeros makes a tensor of zeros on the default device.
func Zeros(shape ...int) *Tensor { return DefaultDevice().Zeros(shape...) }

// Ones makes a tensor of ones on the default device.
func Ones(shape ...int) *Tensor { return DefaultDevice().Ones(shape...) }

// Arange makes a range of numbers on the default device: see [Maker.Arange].
func Arange(args ...float64) *Tensor { return DefaultDevice().Arange(args...) }

// Linspace makes n numbers from start to stop on the default device.
func Linspace(start, stop float64, n int) *Tensor { return DefaultDevice().Linspace(start, stop, n) }

// Eye makes an identity matrix on the default device.
func Eye(n int, columns ...int) *Tensor { return DefaultDevice().Eye(n, columns...) }

// ZerosLike makes zeros of t's shape, type and device.
func (t *Tensor) ZerosLike() *Tensor {
	t.check("ZerosLike")
	return t.fullLike(0)
}

// OnesLike makes ones of t's shape, type and device.
func (t *Tensor) OnesLike() *Tensor {
	t.check("OnesLike")
	return t.fullLike(1)
}

// fullLike makes a tensor of t's shape, type, device and scope.
func (t *Tensor) fullLike(v float64) *Tensor { return t.fullOf(v, t.shape) }

// zerosView is zeros of the given shape that take no memory, to add to.
func (t *Tensor) zerosView(shape []int) *Tensor { return t.fullOf(0, nil).expand(shape) }

// fullOf makes a tensor of the given shape and of t's type, device and scope.
func (t *Tensor) fullOf(v float64, shape []int) *Tensor {
	f := t.place.device.As(t.dtype).Full(v, slices.Clone(shape)...)
	if s := t.Scope(); s != nil {
		s.adopt(f)
	}
	return f
}

// arange returns 0, 1, … n-1 as int64 on t's device, in t's scope.
func (t *Tensor) arange(n int) *Tensor { return t.beside(t.place.device.Arange(float64(n))) }
