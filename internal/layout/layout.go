// Package layout is what programs and single ops have in common about images, tensors
// (N, C, H, W), that lie channels last: the shape stays, but the channels of a pixel lie
// beside each other in memory.
package layout

import (
	"os"
	"slices"
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Setting is where images lie channels last.
type Setting int32

// The settings.
const (
	WherePays Setting = iota // where the device saves more than conversions cost
	Never
	Always // wherever the device can: for tests
)

var setting atomic.Int32

func init() {
	Set(map[string]Setting{"off": Never, "last": Always}[os.Getenv("LOCUS_LAYOUT")])
}

// Set sets where images lie channels last in programs and results that are made from now
// on, and returns the setting before. At first it is what LOCUS_LAYOUT says: off is nowhere, to
// see what it brings or whether it is to blame, and last is wherever the device can.
func Set(s Setting) (old Setting) { return Setting(setting.Swap(int32(s))) }

// Now returns the setting.
func Now() Setting { return Setting(setting.Load()) }

// toLast is where the axes of an image come from when its channels stand last.
var toLast = [4]int{0, 2, 3, 1}

// Pixels returns a view of an image with the axes (N, H, W, C).
func Pixels(v backend.View) backend.View {
	shape, strides := make([]int, 4), make([]int, 4)
	for i, from := range toLast {
		shape[i], strides[i] = v.Shape[from], v.Strides[from]
	}
	v.Shape, v.Strides = shape, strides
	return v
}

// PixelAxis is where an axis of an image is in Pixels.
func PixelAxis(axis int) int { return slices.Index(toLast[:], axis) }

// Strides returns the strides of an image of a shape with its channels last.
func Strides(s []int) []int { return []int{s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]} }

// IsImage reports whether both layouts of a shape differ.
func IsImage(s []int) bool { return len(s) == 4 && s[0] > 0 && s[1] > 1 && s[2]*s[3] > 1 }

// IsLast reports whether an image lies channels last, or is a part of one that does: its
// pixels may lie apart.
func IsLast(shape, strides []int) bool {
	if !IsImage(shape) || strides[1] != 1 {
		return false
	}
	least := shape[1]
	for _, i := range [...]int{3, 2, 0} {
		if shape[i] == 1 {
			continue
		}
		if strides[i] < least {
			return false
		}
		least = strides[i] * shape[i]
	}
	return true
}

// Spread reports whether v repeats an element.
func Spread(v *backend.View) bool {
	for i, n := range v.Shape {
		if n > 1 && v.Strides[i] == 0 {
			return true
		}
	}
	return false
}

// Box reports whether v is a part of an image of a shape that lies in order from the start
// of its memory, and returns v as it would be with the channels last.
func Box(v backend.View, shape []int) (backend.View, bool) {
	if len(v.Shape) != 4 || len(shape) != 4 || v.Offset < 0 || v.Offset >= op.Elements(shape) {
		return v, false
	}
	plain, last := op.Strides(shape), Strides(shape)
	offset, rest := 0, v.Offset
	for i := range shape {
		at := rest / plain[i]
		rest -= at * plain[i]
		offset += at * last[i]
		if at+v.Shape[i] > shape[i] || v.Shape[i] > 1 && v.Strides[i] != plain[i] {
			return v, false
		}
	}
	v.Offset, v.Strides = offset, last
	return v, true
}

// Follows reports whether an op computes elements one by one, or puts images side by side:
// such an op runs over (N, H, W, C) as it does over (N, C, H, W).
func Follows(id op.ID) bool { return id == op.Concat || op.Get(id).Elementwise() }
