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
