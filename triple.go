package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/gate"
)

// Triple is a size along depth, height and width. A plain number means the same for
// all three:
//
//	locus.Conv3DOptions{Stride: 2, Padding: locus.DHW(0, 1, 1)}
type Triple int64

// tripleBit tells a Triple made by DHW from a plain number.
const tripleBit Triple = 1 << 62

// maxEdge is the largest size that a Triple holds.
const maxEdge = 1<<20 - 1

// DHW makes a Triple of three sizes.
func DHW(depth, height, width int) Triple {
	gate.Check("DHW", gate.Count("the depth", depth, 0, maxEdge), gate.Count("the height", height, 0, maxEdge), gate.Count("the width", width, 0, maxEdge))
	return tripleBit | Triple(depth)<<40 | Triple(height)<<20 | Triple(width)
}

// Depth is the first of the three sizes.
func (t Triple) Depth() int { return t.side(40) }

// Height is the second of the three sizes.
func (t Triple) Height() int { return t.side(20) }

// Width is the third of the three sizes.
func (t Triple) Width() int { return t.side(0) }

func (t Triple) side(shift uint) int {
	if t&tripleBit != 0 && t > 0 {
		return int(t >> shift & maxEdge)
	}
	return int(t)
}

// String returns "2" or "(2, 1, 1)".
func (t Triple) String() string {
	d, h, w := t.Depth(), t.Height(), t.Width()
	switch {
	case t == Same:
		return "Same"
	case d == h && h == w:
		return fmt.Sprint(d)
	}
	return fmt.Sprintf("(%d, %d, %d)", d, h, w)
}

// or returns the three sizes; zero, the value of an option that was left out, is def.
func (t Triple) or(def Triple) [3]int {
	if t == 0 {
		t = def
	}
	if t == Same {
		failf("Triple", ErrArgument, nil, "Same is a padding of convolutions, not a size")
	}
	if t > 0 && t&tripleBit != 0 && t>>60 != tripleBit>>60 {
		failf("Triple", ErrArgument, nil, "%d is neither a plain number nor a result of DHW", int64(t))
	}
	s := [3]int{t.Depth(), t.Height(), t.Width()}
	for _, n := range s {
		if n > maxEdge || n < -maxEdge { // what is negative but no nonsense the op reports
			failf("Triple", ErrArgument, nil, "the size is %d; the maximum is %d", n, maxEdge)
		}
	}
	return s
}
