package locus

import "github.com/locusml/locus/internal/gate"

// Split cuts an axis into parts of the given size; the last may be smaller.
func (t *Tensor) Split(size, axis int) []*Tensor {
	t.check("Split")
	a := t.axis("Split", axis)
	if size <= 0 {
		failf("Split", ErrArgument, []*Tensor{t}, "the size of a part is %d", size)
	}
	if err := gate.Count("the number of parts", (t.shape[a]-1)/size+1, 0, max(t.Len(), gate.MaxParts)); err != nil {
		fail("Split", err, t)
	}
	var parts []*Tensor
	for at := 0; at < t.shape[a] || at == 0; at += size {
		parts = append(parts, t.Narrow(a, at, min(at+size, t.shape[a])))
	}
	return parts
}

// Chunk cuts an axis into n parts whose sizes differ by at most one.
func (t *Tensor) Chunk(n, axis int) []*Tensor {
	t.check("Chunk")
	a := t.axis("Chunk", axis)
	if err := gate.Count("the number of parts", n, 1, max(t.Len(), gate.MaxParts)); err != nil {
		fail("Chunk", err, t)
	}
	var parts []*Tensor
	at := 0
	for i := range n {
		size := (t.shape[a] - at) / (n - i)
		if (t.shape[a]-at)%(n-i) != 0 {
			size++
		}
		parts = append(parts, t.Narrow(a, at, at+size))
		at += size
	}
	return parts
}

// SplitSizes cuts an axis into parts of the given sizes, which add up to its own.
func (t *Tensor) SplitSizes(sizes []int, axis int) []*Tensor {
	t.check("SplitSizes")
	a := t.axis("SplitSizes", axis)
	left := t.shape[a]
	for _, n := range sizes {
		if n < 0 || n > left {
			left = -1
			break
		}
		left -= n
	}
	if left != 0 {
		failf("SplitSizes", ErrShape, []*Tensor{t}, "the sizes %v do not add up to %d, the size of axis %d", sizes, t.shape[a], a)
	}
	parts := make([]*Tensor, len(sizes))
	at := 0
	for i, n := range sizes {
		parts[i] = t.Narrow(a, at, at+n)
		at += n
	}
	return parts
}

// Unbind returns the slices of t along an axis, which they no longer have: views,
// one for each position.
func (t *Tensor) Unbind(axis int) []*Tensor {
	t.check("Unbind")
	a := t.axis("Unbind", axis)
	n := t.shape[a]
	if err := gate.Count("the number of slices", n, 0, max(t.Len(), gate.MaxParts)); err != nil {
		fail("Unbind", err, t)
	}
	parts := make([]*Tensor, n)
	for i := range parts {
		parts[i] = t.Slice(rangesFor(t, a, At(i))...)
	}
	return parts
}
