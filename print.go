package locus

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/locusml/locus/internal/op"
)

const (
	printLimit = 1000 // tensors with more elements are summarized
	printEdge  = 3    // elements shown at each end of a summarized axis
	printWidth = 80   // columns
	printDigit = 4    // digits after the point
)

// String shows the elements, aligned and summarized if there are many, and
// always shape, element type and device. It waits for the tensor; of a large
// one only what is shown is copied.
func (t *Tensor) String() string {
	if t == nil {
		return "<nil tensor>"
	}
	if t.place == nil { // printing is how one finds out
		return "<zero tensor>"
	}
	where := fmt.Sprintf("%s %s on %s", t.dtype, op.ShapeString(t.shape), t.place.device)
	if t.Freed() {
		return "<freed tensor> " + where
	}
	if t.lane != nil {
		return "<all slices of a Vmap> " + where
	}
	var body string
	if err := Try(func() { body = t.format() }); err != nil {
		return fmt.Sprintf("<%v> %s", err, where)
	}
	return body + " " + where
}

// format returns the elements in brackets.
func (t *Tensor) format() string {
	if t.Len() == 0 {
		return strings.Repeat("[", max(1, len(t.shape))) + strings.Repeat("]", max(1, len(t.shape)))
	}
	shown, cut := t.detach(), make([]bool, len(t.shape))
	if t.Len() > printLimit {
		for i, n := range t.shape {
			if n > 2*printEdge {
				cut[i] = true
				shown = Concat(i, shown.Narrow(i, 0, printEdge), shown.Narrow(i, n-printEdge, n))
			}
		}
	}
	cells := shown.cells()
	if len(t.shape) == 0 {
		return strings.TrimSpace(cells[0])
	}
	p := printer{shape: shown.shape, cut: cut, cells: cells}
	p.write(0, 0)
	return p.b.String()
}

// printer lays cells out in brackets.
type printer struct {
	b     strings.Builder
	shape []int
	cut   []bool
	cells []string
}

// write prints the part of the tensor that starts at cell `at`, axis by axis.
func (p *printer) write(axis, at int) {
	n := p.shape[axis]
	p.b.WriteByte('[')
	if axis == len(p.shape)-1 {
		p.row(p.cells[at:at+n], p.cut[axis], axis+1)
		p.b.WriteByte(']')
		return
	}
	size := op.Elements(p.shape[axis+1:])
	// One line break between rows, a blank line between matrices, and so on.
	next := strings.Repeat("\n", len(p.shape)-axis-1) + strings.Repeat(" ", axis+1)
	for i := range n {
		if i > 0 {
			p.b.WriteString(next)
		}
		if p.cut[axis] && i == printEdge {
			p.b.WriteString("…")
			p.b.WriteString(next)
		}
		p.write(axis+1, at+i*size)
	}
	p.b.WriteByte(']')
}

// row prints the last axis, broken into lines that fit.
func (p *printer) row(cells []string, cut bool, indent int) {
	col := indent
	for i, c := range cells {
		words := []string{c}
		if cut && i == printEdge {
			words = []string{"…", c}
		}
		for j, w := range words {
			width := len([]rune(w))
			if i+j > 0 {
				if col+1+width > printWidth {
					p.b.WriteString("\n" + strings.Repeat(" ", indent))
					col = indent
				} else {
					p.b.WriteByte(' ')
					col++
				}
			}
			p.b.WriteString(w)
			col += width
		}
	}
}

// cells formats every element to one width.
func (t *Tensor) cells() []string {
	var out []string
	switch {
	case t.dtype == Bool:
		for _, v := range ToSlice[bool](t) {
			out = append(out, strconv.FormatBool(v))
		}
	case t.dtype.IsInt():
		for _, v := range ToSlice[int64](t.Cast(Int64)) {
			out = append(out, strconv.FormatInt(v, 10))
		}
	default:
		out = formatFloats(ToSlice[float64](t.Cast(Float64)))
	}
	width := 0
	for _, c := range out {
		width = max(width, len(c))
	}
	for i, c := range out {
		out[i] = strings.Repeat(" ", width-len(c)) + c
	}
	return out
}

// formatFloats chooses one way for all: integers without a point, else
// four digits after it, or powers of ten where sizes differ too much for that.
func formatFloats(v []float64) []string {
	whole, lo, hi := true, math.Inf(1), 0.0
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		whole = whole && x == math.Trunc(x)
		if a := math.Abs(x); a != 0 {
			lo, hi = min(lo, a), max(hi, a)
		}
	}
	format := func(x float64) string { return strconv.FormatFloat(x, 'f', printDigit, 64) }
	switch {
	case whole && hi < 1e8:
		format = func(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) }
	case hi >= 1e8 || hi/lo > 1e5 || hi < 1e-3 && hi > 0:
		format = func(x float64) string { return strconv.FormatFloat(x, 'e', printDigit, 64) }
	}
	out := make([]string, len(v))
	for i, x := range v {
		switch {
		case math.IsNaN(x):
			out[i] = "nan"
		case math.IsInf(x, 1):
			out[i] = "inf"
		case math.IsInf(x, -1):
			out[i] = "-inf"
		default:
			out[i] = format(x)
		}
	}
	return out
}
