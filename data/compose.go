package data

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// subset is some of a dataset's examples.
type subset struct {
	of Dataset
	at []int
}

// Subset returns the examples of d at the given positions, in that order.
func Subset(d Dataset, at []int) (Dataset, error) {
	n, err := length(d)
	if err != nil {
		return nil, err
	}
	if len(at) > 0 {
		if err := checkPositions(at, n); err != nil {
			return nil, err
		}
	}
	return &subset{d, slices.Clone(at)}, nil
}

func (s *subset) Len() int { return len(s.at) }

func (s *subset) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	if err := checkPositions(at, len(s.at)); err != nil {
		return nil, err
	}
	inner := make([]int, len(at))
	for i, p := range at {
		inner[i] = s.at[p]
	}
	return s.of.Batch(inner, key)
}

func (s *subset) ForEpoch(key locus.Key) Dataset { return &subset{forEpoch(s.of, key), s.at} }

// Split divides d's examples at random, by key, into datasets of the given sizes,
// which must add up to d's or to less; one of them may be -1 and gets the rest.
func Split(d Dataset, key locus.Key, sizes ...int) ([]Dataset, error) {
	count, err := length(d)
	if err != nil {
		return nil, err
	}
	shares, err := shares(key, count, sizes)
	if err != nil {
		return nil, err
	}
	parts := make([]Dataset, len(shares))
	for i, at := range shares {
		parts[i] = &subset{d, at}
	}
	return parts, nil
}

// shares divides the positions up to count at random.
func shares(key locus.Key, count int, sizes []int) ([][]int, error) {
	total, rest := 0, -1
	for i, n := range sizes {
		switch {
		case n > count-total:
			return nil, fmt.Errorf("data: cannot split %d examples into %v: %w", count, sizes, locus.ErrArgument)
		case n >= 0:
			total += n
		case n == -1 && rest < 0:
			rest = i
		default:
			return nil, fmt.Errorf("data: cannot split into %v: sizes are positive, and one may be -1: %w", sizes, locus.ErrArgument)
		}
	}
	order := permutation(key, count)
	parts := make([][]int, len(sizes))
	for i, n := range sizes {
		if i == rest {
			n = count - total
		}
		parts[i] = order[:n:n]
		order = order[n:]
	}
	return parts, nil
}

// concat is several datasets one after the other.
type concat struct {
	parts []Dataset
	ends  []int // where each part ends
}

// Concat returns the examples of all parts, one after the other. They must have
// the same fields.
func Concat(parts ...Dataset) Dataset {
	c := &concat{parts: slices.Clone(parts)}
	n := 0
	for i, p := range parts {
		gate.Check("data.Concat", gate.Given(fmt.Sprintf("part %d", i), p))
		size := p.Len()
		gate.Check("data.Concat", gate.Count(fmt.Sprintf("the number of examples of part %d", i), size, 0, math.MaxInt-n))
		n += size
		c.ends = append(c.ends, n)
	}
	return c
}

func (c *concat) Len() int {
	if len(c.ends) == 0 {
		return 0
	}
	return c.ends[len(c.ends)-1]
}

func (c *concat) ForEpoch(key locus.Key) Dataset {
	parts := make([]Dataset, len(c.parts))
	for i, p := range c.parts {
		parts[i] = forEpoch(p, key.Fold(uint64(i)))
	}
	return Concat(parts...)
}

func (c *concat) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	if err := checkPositions(at, c.Len()); err != nil {
		return nil, err
	}
	// Each part returns its own examples; then they are put back in order.
	inner := make([][]int, len(c.parts))
	part := make([]int, len(at))
	for i, p := range at {
		k := sort.SearchInts(c.ends, p+1)
		start := 0
		if k > 0 {
			start = c.ends[k-1]
		}
		part[i] = k
		inner[k] = append(inner[k], p-start)
	}
	var pieces [][]*locus.Tensor
	starts := make([]int, len(c.parts)) // where each part's examples begin in the pieces
	n := 0
	for k, positions := range inner {
		starts[k] = n
		if len(positions) == 0 {
			continue
		}
		key := key.Fold(uint64(k))
		if first := key.First(); first > 0 { // fewer examples: still not what other parts of the batch draw
			key = key.Part(first, len(positions))
		}
		p, err := c.parts[k].Batch(positions, key)
		if err != nil {
			return nil, err
		}
		if len(pieces) > 0 && len(p) != len(pieces[0]) {
			return nil, fmt.Errorf("data: part %d has %d fields, another %d: %w", k, len(p), len(pieces[0]), locus.ErrShape)
		}
		pieces = append(pieces, p)
		n += len(positions)
	}
	if len(pieces) == 1 {
		return pieces[0], nil
	}
	order := make([]int, len(at))
	for i, k := range part {
		order[i] = starts[k]
		starts[k]++
	}
	out := make([]*locus.Tensor, len(pieces[0]))
	err := locus.Try(func() {
		for f := range out {
			var list []*locus.Tensor
			for _, p := range pieces {
				list = append(list, p[f])
			}
			all := locus.Concat(0, list...)
			for _, t := range list {
				t.Free()
			}
			if _, ok := consecutive(order); ok {
				out[f] = all
				continue
			}
			out[f] = all.Take(0, all.Device().From(order))
			all.Free()
		}
	})
	return out, err
}

// mapped is a dataset whose batches are changed on the way.
type mapped struct {
	of Dataset
	f  Transform
}

// Transform changes a batch: one tensor per field, with the examples along axis 0.
// It may return any number of fields. Anything random must come from key.
type Transform func(batch []*locus.Tensor, key locus.Key) []*locus.Tensor

// Map returns d with every batch changed by the transforms, one after the other,
// on the goroutine that makes the batch. What they compute on the way is freed
// at once.
func Map(d Dataset, transforms ...Transform) Dataset {
	gate.Check("data.Map", gate.Given("the dataset", d))
	for i, f := range transforms {
		gate.Check("data.Map", gate.Given(fmt.Sprintf("transform %d", i), f))
	}
	return &mapped{d, func(batch []*locus.Tensor, key locus.Key) []*locus.Tensor {
		for i, f := range transforms {
			batch = f(batch, key.Fold(uint64(i)))
		}
		return batch
	}}
}

func (m *mapped) Len() int { return m.of.Len() }

func (m *mapped) ForEpoch(key locus.Key) Dataset { return &mapped{forEpoch(m.of, key), m.f} }

func (m *mapped) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	in, err := m.of.Batch(at, key.Fold(0))
	if err != nil {
		return nil, err
	}
	var out []*locus.Tensor
	err = locus.Try(func() {
		locus.Scoped(func(s *locus.Scope) {
			for _, t := range in {
				s.Adopt(t)
			}
			out = m.f(in, key.Fold(1))
			if len(out) == 0 {
				panic(&locus.Error{Kind: locus.ErrArgument, Op: "data.Map", Msg: "the transforms returned no fields", Fix: "return the batch, with inputs first and targets last"})
			}
			for _, t := range out {
				s.Keep(t)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
