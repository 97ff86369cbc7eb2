package sample

import (
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Layout is how an operand lies in memory.
type Layout uint8

// The layouts. Those that need more axes than a shape has degrade to simpler ones.
const (
	Contiguous     Layout = iota
	Offset                // contiguous, from an element that is not aligned to anything
	Transposed            // all axes in the opposite order
	Swapped               // the last two axes exchanged
	Stepped               // every second element of the first and last axis, from the second on
	Reversed              // all strides negative
	Mixed                 // axes rotated; then the first backwards, the last with step 3
	BroadcastFirst        // stride 0 on the first axis
	BroadcastLast         // stride 0 on the last axis
	BroadcastAll          // one element
	Constant              // one element in the view itself, without memory
	Scrambled             // axes in a random order with random steps, some backwards
)

var layoutNames = [...]string{"contiguous", "offset", "transposed", "swapped", "stepped", "reversed", "mixed",
	"broadcast first", "broadcast last", "broadcast", "constant", "scrambled"}

func (l Layout) String() string { return op.EnumName("Layout", int(l), layoutNames[:]...) }

// place returns the strides and offset of a view of the shape, and how many elements
// the memory holds, of which the view may leave some out. The key decides what is
// random.
func (l Layout) place(shape []int, key uint64) (strides []int, offset, size int) {
	n := len(shape)
	strides = make([]int, n)
	if n == 0 || l == BroadcastAll || l == Constant {
		if l == Offset {
			return strides, 3, 4
		}
		return strides, 0, 1
	}
	// order lists the axes from the outermost to the innermost in memory, step the
	// stride of each in units of what lies inside it (0: broadcast, negative: backwards).
	order, step := make([]int, n), make([]int, n)
	for i := range n {
		order[i], step[i] = i, 1
	}
	switch l {
	case Offset:
		offset = 3
	case Transposed:
		for i := range n {
			order[i] = n - 1 - i
		}
	case Swapped:
		if n >= 2 {
			order[n-1], order[n-2] = n-2, n-1
		}
	case Stepped:
		step[0], step[n-1] = 2, 2
	case Reversed:
		for i := range step {
			step[i] = -1
		}
	case Mixed:
		for i := range n {
			order[i] = (i + 1) % n
		}
		step[n-1] = 3
		step[0] = -step[0]
	case Scrambled:
		for i := range n {
			r := random.Philox(key, uint64(i)|1<<62)
			j := int(r[0] % uint32(i+1))
			order[i], order[j] = order[j], order[i]
			step[i] = [...]int{1, 1, 1, -1, 2, -2, 3}[r[1]%7]
		}
	case BroadcastFirst:
		step[0] = 0
	case BroadcastLast:
		step[n-1] = 0
	}
	size = 1
	for i := n - 1; i >= 0; i-- {
		ax := order[i]
		s, d := step[ax], shape[ax]
		if s == 0 {
			continue
		}
		strides[ax] = s * size
		reach := max(s, -s)
		if s < 0 {
			offset += (max(d, 1) - 1) * reach * size
		} else if s > 1 {
			offset += size // begin at the second
		}
		size *= reach * max(d, 1)
	}
	if l == Offset {
		size += offset
	}
	return strides, offset, size
}

// Base is the operand's shape before it was expanded: 1 on the axes that its
// layout broadcasts.
func (o Operand) Base() []int {
	base := append([]int{}, o.Shape...)
	st, _, _ := o.Layout.place(o.Shape, 0)
	for i := range base {
		if st[i] == 0 && base[i] > 1 {
			base[i] = 1
		}
	}
	return base
}

// walk calls f with the position of every element of a view, in order.
func walk(shape, strides []int, offset int, f func(i, position int)) {
	at := make([]int, len(shape))
	for i := range op.Elements(shape) {
		p := offset
		for ax, k := range at {
			p += k * strides[ax]
		}
		f(i, p)
		for ax := len(shape) - 1; ax >= 0; ax-- {
			if at[ax]++; at[ax] < shape[ax] {
				break
			}
			at[ax] = 0
		}
	}
}
