package locus

import "strconv"

// given lists the operands without those that were left out: all but the first
// n may be nil.
func given(n int, ts ...*Tensor) []*Tensor {
	l := make([]*Tensor, 0, len(ts))
	for i, t := range ts {
		if t != nil || i < n {
			l = append(l, t)
		}
	}
	return l
}

// goName is how a program writes a device.
func goName(d Device) string {
	if d.gpu {
		return "locus.GPU(" + itoa(int(d.index)) + ")"
	}
	return "locus.CPU()"
}

func itoa(n int) string { return strconv.Itoa(n) }
