package op

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ShapeString formats a shape as it is printed everywhere: "(2, 3)", "(4,)", "()".
func ShapeString(s []int) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, n := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(n))
	}
	if len(s) == 1 {
		b.WriteByte(',')
	}
	b.WriteByte(')')
	return b.String()
}

// Elements is the number of elements of a valid shape.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// CheckShape reports a negative size, too many dimensions, or a number of
// elements whose bytes would overflow an int.
func CheckShape(shape []int) error {
	if len(shape) > MaxRank {
		return Problemf(ErrShape, "shape %s has %d dimensions; at most %d are supported", ShapeString(shape), len(shape), MaxRank)
	}
	n := 1
	for i, d := range shape {
		if d < 0 {
			return Problemf(ErrShape, "shape %s has the negative size %d on axis %d", ShapeString(shape), d, i)
		}
		// Sizes multiply even behind a zero, so that strides cannot overflow either.
		if d > 0 {
			if n > math.MaxInt/16/d {
				return Problemf(ErrShape, "shape %s has too many elements for this machine's address space", ShapeString(shape))
			}
			n *= d
		}
	}
	return nil
}

// Strides returns the strides, in elements, of a contiguous tensor.
func Strides(shape []int) []int {
	st := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= max(shape[i], 1)
	}
	return st
}

// IsContiguous reports whether the elements lie in order without holes.
func IsContiguous(shape, strides []int) bool {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return true
		}
		if shape[i] != 1 {
			if strides[i] != n {
				return false
			}
			n *= shape[i]
		}
	}
	return true
}

// Broadcast returns the shape to which all shapes expand: aligned at the last
// axis, each axis has one size, and 1 stretches.
func Broadcast(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for k, s := range shapes {
		for i, d := range s {
			j := rank - len(s) + i
			switch {
			case d == out[j] || d == 1:
			case out[j] == 1:
				out[j] = d
			default:
				return nil, Problemf(ErrShape, "operand %d of shape %s does not broadcast: axis %d from the end is %d, which is neither 1 nor %d",
					k, ShapeString(s), rank-j, d, out[j])
			}
		}
	}
	return out, nil
}

// ResolveAxis resolves an axis that may count from the end.
func ResolveAxis(axis, rank int) (int, error) {
	a := axis
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= rank {
		if rank == 0 {
			return 0, Problemf(ErrAxis, "axis %d: the tensor has no axes", axis)
		}
		return 0, Problemf(ErrAxis, "axis %d is out of range for %d dimensions; valid are %d to %d", axis, rank, -rank, rank-1)
	}
	return a, nil
}

// ResolveAxes resolves several axes to a set; none means all. An axis named
// twice is an error.
func ResolveAxes(axes []int, rank int) (AxisSet, error) {
	if len(axes) == 0 {
		return AllAxes(rank), nil
	}
	var s AxisSet
	for _, axis := range axes {
		a, err := ResolveAxis(axis, rank)
		if err != nil {
			return 0, err
		}
		if s.Has(a) {
			return 0, Problemf(ErrAxis, "axis %d is named twice in %v", axis, axes)
		}
		s |= 1 << a
	}
	return s, nil
}

// ResolveReshape fills in the one size that may be -1.
func ResolveReshape(from, to []int) ([]int, error) {
	n, known, hole := Elements(from), 1, -1
	out := slices.Clone(to)
	for i, d := range to {
		switch {
		case d == -1 && hole < 0:
			hole = i
		case d == -1:
			return nil, Problemf(ErrShape, "shape %s has more than one -1", ShapeString(to))
		default:
			known *= d
		}
	}
	if hole >= 0 {
		if known == 0 || n%known != 0 {
			return nil, Problemf(ErrShape, "cannot fill in the -1 of %s: %d elements are not a multiple of %d", ShapeString(to), n, known)
		}
		out[hole] = n / known
	}
	if err := CheckShape(out); err != nil {
		return nil, err
	}
	if Elements(out) != n {
		return nil, Problemf(ErrShape, "cannot reshape %s with %d elements to %s with %d", ShapeString(from), n, ShapeString(out), Elements(out))
	}
	return out, nil
}

func wantRank(name string, s Spec, operand, rank int) error {
	if len(s.Shape) != rank {
		return Problemf(ErrShape, "operand %d has shape %s; %s wants %d dimensions", operand, ShapeString(s.Shape), name, rank)
	}
	return nil
}

func attrError(name string, a Attrs) error {
	return &Problem{Kind: ErrArgument, Msg: fmt.Sprintf("%s got attributes of type %T", name, a)}
}
