package locus

import "github.com/locusml/locus/internal/op"

// The shapes of these results depend on elements: each waits for a count, which
// the ledger notes as a copy of 8 bytes from the device, and is an error in a
// compiled function, which has one shape. [Tensor.Where] and [Tensor.MaskedFill]
// compute with masks without waiting.

// NonZero returns the positions of the elements that are not 0, of bools those of
// the true ones: int64, a row per element, with a column per axis, in order.
func (t *Tensor) NonZero() *Tensor {
	const name = "NonZero"
	t.check(name)
	at := t.nonZero(name)
	// What lies inside one step of each axis, from the first.
	columns := make([]*Tensor, len(t.shape))
	for i, n := range t.shape {
		c := at
		if inner := op.Elements(t.shape[i+1:]); inner > 1 {
			c = c.FloorDiv(inner)
		}
		if i > 0 {
			c = c.Mod(max(n, 1))
		}
		columns[i] = c
	}
	if len(columns) == 0 {
		return at.reshape([]int{at.Len(), 1}).Narrow(1, 0, 0).Copy()
	}
	return Stack(1, columns...)
}

// nonZero returns the positions in the flat tensor.
func (t *Tensor) nonZero(name string) *Tensor {
	t.single(name)
	countable(name)
	mask := t.detach()
	if mask.dtype != Bool {
		mask = mask.Ne(0)
	}
	flat := mask.reshape([]int{mask.Len()})
	count := int(flat.Sum().Int())
	// Stable: the true ones come first, in order.
	return apply(op.ArgSort, op.Axis{Axis: 0, Reverse: true}, flat).Narrow(0, 0, count).Copy()
}

// MaskedSelect returns the elements of t where mask is true, one after the other
// as a vector. Shapes broadcast.
func (t *Tensor) MaskedSelect(mask *Tensor) *Tensor {
	const name = "MaskedSelect"
	in := []*Tensor{t, mask}
	checkOperands(name, in)
	mask.wantBool(name)
	shape, err := op.Broadcast(t.shape, mask.shape)
	if err != nil {
		fail(name, err, in...)
	}
	at := mask.expand(shape).nonZero(name)
	return t.expand(shape).reshape([]int{op.Elements(shape)}).take(0, at)
}

// Unique returns the different elements of t in ascending order as a vector, for
// each element of t the position of its value there, and how often each value
// occurs, both as int64. NaN is different from itself, as in PyTorch: each counts
// once. No gradient flows.
func (t *Tensor) Unique() (values, inverse, counts *Tensor) {
	const name = "Unique"
	t.check(name)
	t.single(name)
	countable(name)
	x := t.detach().reshape([]int{t.Len()})
	n := x.Len()
	if n == 0 {
		return x.Copy(), t.beside(t.place.device.As(Int64).Zeros(t.shape...)), t.beside(t.place.device.As(Int64).Zeros(0))
	}
	order := apply(op.ArgSort, op.Axis{Axis: 0}, x)
	sorted := x.take(0, order)
	// Each value begins where an element differs from the one before.
	first := Concat(0, t.beside(t.place.device.As(Bool).Ones(1)), sorted.Narrow(0, 1, n).Ne(sorted.Narrow(0, 0, n-1)))
	at := first.nonZero(name)
	which := first.Cast(Int64).CumSum(0).Sub(1)
	flat := which.zerosView([]int{n})
	inverse = flat.IndexAdd(0, order, which).reshape(t.shape).owned()
	ends := Concat(0, at.Narrow(0, 1, at.Len()), t.beside(t.place.device.As(Int64).Full(float64(n), 1)))
	return sorted.take(0, at), inverse, ends.Sub(at)
}
