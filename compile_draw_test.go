package locus

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// picture returns what a function writes, which must be an SVG document.
func picture(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
	}
}

// A compiled function is drawn with its steps, its memory and its times, whatever runs it.
func TestDraw(t *testing.T) {
	_, all := devicesOf()
	for _, d := range all {
		var w variableCell
		w.t = d.Ones(4, 4)
		f := Compile(func(a ...*Tensor) []*Tensor {
			h := a[0].MatMul(w.Value())
			w.Set(w.Value().Sub(h.Sum(0)))
			return []*Tensor{h.Add(2).Exp().Mul(h).Sum(1)}
		}, &w)
		if err := f.WriteSVG(io.Discard, DrawOptions{}); !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "call the function first") {
			t.Errorf("%s: before a call: %v", d, err)
		}
		x := d.Ones(3, 4)
		for range 4 {
			f.Call(x)
		}
		line := Profile(func() { f.Call(x) })
		graph := picture(t, func(w io.Writer) error { return f.WriteSVG(w, DrawOptions{Times: line}) })
		for _, want := range []string{"matmul", ">add<", ">exp<", ">mul<", "3 ops in one pass", "argument 0", "variable 0", "result 0", "compile_draw_test.go:", "float32 (3, 4)", " %"} {
			if !strings.Contains(graph, want) {
				t.Errorf("%s: no %q in the drawing", d, want)
			}
		}
		memory := picture(t, func(w io.Writer) error { return f.WriteMemorySVG(w, DrawOptions{}) })
		for _, want := range []string{"peak: ", "matmul", "result 0: float32 (3", "in use in steps "} {
			if !strings.Contains(memory, want) {
				t.Errorf("%s: no %q in the memory plan", d, want)
			}
		}
		var dot strings.Builder
		if err := f.WriteDOT(&dot, DrawOptions{}); err != nil || !strings.HasPrefix(dot.String(), "digraph ") || strings.Count(dot.String(), "s0 -> ") < 2 {
			t.Errorf("%s: %v\n%s", d, err, dot.String())
		}
		if strip := picture(t, line.WriteSVG); !strings.Contains(strip, "add+exp+mul") || !strings.Contains(strip, d.String()) {
			t.Errorf("%s: the timeline is %s", d, strip)
		}
		for name, o := range map[string]DrawOptions{"another signature": {Signature: 1}, "a negative one": {Signature: -1}, "times of others": {Times: Profile(func() { x.Neg() })}} {
			if err := f.WriteSVG(io.Discard, o); !errors.Is(err, ErrArgument) {
				t.Errorf("%s: %s: %v", d, name, err)
			}
		}
	}
}

// A program of hundreds of steps has few boxes, unless all of them are asked for.
func TestDrawFolds(t *testing.T) {
	f := Compile(func(a ...*Tensor) []*Tensor {
		x := a[0]
		for range 150 {
			x = x.MatMul(a[0])
			x = x.Softmax(1)
		}
		return []*Tensor{x}
	})
	for range 2 {
		f.Call(Ones(2, 2))
	}
	for boxes, want := range map[int]int{0: 64, 10: 10, 1: 1, -1: 300, 1000: 300} {
		s := picture(t, func(w io.Writer) error { return f.WriteSVG(w, DrawOptions{Boxes: boxes}) })
		if n := strings.Count(s, `class="card"`); n != want {
			t.Errorf("%d boxes for %d, want %d", n, boxes, want)
		}
		if boxes == 0 && !strings.Contains(s, "300 steps in 64 boxes") {
			t.Error("the drawing does not say that it is folded")
		}
	}
}

// variableCell is a variable of the test's own.
type variableCell struct{ t *Tensor }

func (c *variableCell) Value() *Tensor { return c.t }
func (c *variableCell) Set(t *Tensor)  { c.t = t }

// A function that could not be traced has no program to be drawn, and the error says why.
func TestDrawNone(t *testing.T) {
	f := Compile(func(a ...*Tensor) []*Tensor {
		a[0].Sum().Item()
		return a
	}).Lenient()
	for range 2 {
		f.Call(Ones(2))
	}
	err := f.WriteSVG(io.Discard, DrawOptions{})
	if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "reads or waits for a value at ") {
		t.Errorf("%v, where the function says %q", err, f.Fallback())
	}
}
