package locus

import (
	"fmt"

	"github.com/locusml/locus/internal/gate"
)

// Pair is a size along height and width. A plain number means the same for
// both, so that options read well:
//
//	locus.ConvOptions{Stride: 2, Padding: locus.HW(1, 0)}
//
// One-dimensional ops read a plain number, or the width.
type Pair int64

// pairBit tells a Pair made by HW from a plain number.
const pairBit Pair = 1 << 62

// Same as a convolution's padding keeps the size of the image, or of the volume; it
// needs a stride of 1. It is a [Pair] or a [Triple], as the option requires.
const Same = 1 << 61

// maxSide is the largest size that a Pair holds.
const maxSide = 1<<30 - 1

// HW makes a Pair of two sizes.
func HW(height, width int) Pair {
	gate.Check("HW", gate.Count("the height", height, 0, maxSide), gate.Count("the width", width, 0, maxSide))
	return pairBit | Pair(height)<<31 | Pair(width)
}

// Height is the first of the two sizes.
func (p Pair) Height() int {
	if p&pairBit != 0 && p > 0 {
		return int(p &^ pairBit >> 31)
	}
	return int(p)
}

// Width is the second of the two sizes.
func (p Pair) Width() int {
	if p&pairBit != 0 && p > 0 {
		return int(p & (1<<31 - 1))
	}
	return int(p)
}

// String returns "2" or "(2, 1)".
func (p Pair) String() string {
	switch {
	case p == Same:
		return "Same"
	case p.Height() == p.Width():
		return fmt.Sprint(p.Height())
	}
	return fmt.Sprintf("(%d, %d)", p.Height(), p.Width())
}

// or returns both sizes; zero, the value of an option that was left out, is def.
func (p Pair) or(def Pair) [2]int {
	if p == 0 {
		p = def
	}
	if p == Same {
		failf("Pair", ErrArgument, nil, "Same is a padding of convolutions, not a size")
	}
	for _, n := range [2]int{p.Height(), p.Width()} {
		if n > maxSide || n < -maxSide { // what is negative but no nonsense the op reports
			failf("Pair", ErrArgument, nil, "the size is %d; the maximum is %d", n, maxSide)
		}
	}
	return [2]int{p.Height(), p.Width()}
}

// flat returns the sizes of a one-dimensional op, whose height is 1: `one` is the
// height of a size that does nothing.
func (p Pair) flat(def Pair, one int) Pair {
	if p == 0 {
		p = def
	}
	if p == Same {
		return p
	}
	if p < 0 || p.Width() > maxSide { // let the op report it
		return p
	}
	return HW(one, p.Width())
}
