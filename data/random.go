package data

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/random"
)

// stream draws numbers from a key, one after the other, on the host.
type stream struct {
	key  uint64
	next uint64
}

// newStream returns the numbers of a key, of which each example of a batch takes so many:
// a part of a batch begins behind those of the examples before it.
func newStream(key locus.Key, each int) *stream {
	return &stream{key: key.Part(0, 0).Bits(), next: uint64(key.First()) * uint64(each)}
}

// below returns a number from 0 to below n.
func (s *stream) below(n int) int {
	w := random.Word64(s.key, s.next)
	s.next++
	return int(random.Bounded(w, uint64(n)))
}

// uniform returns a number in [0, 1).
func (s *stream) uniform() float64 {
	w := random.Word64(s.key, s.next)
	s.next++
	return random.Uniform64(w)
}

// permutation returns the numbers from 0 to below n in an order that key decides.
func permutation(key locus.Key, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	s := newStream(key, 0)
	for i := n - 1; i > 0; i-- {
		j := s.below(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}
