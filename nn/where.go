package nn

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/locusml/locus"
)

// where is the place in a container whose layer is being applied, for the errors
// of that layer. A container defers blame, and tells where it is before each layer.
type where struct {
	kind  string // of the container, as its constructor is called
	field string // of the container, "" if the container has but one list
	index int    // in a list; -1 without one
	layer any    // nil: the container's own arithmetic
}

// at moves on to a layer.
func (w *where) at(field string, index int, layer any) {
	w.field, w.index, w.layer = field, index, layer
}

// own moves on to what the container computes itself.
func (w *where) own() { w.at("", -1, nil) }

// blame adds the path of the layer to a *locus.Error that passes.
func (w *where) blame() {
	if r := recover(); r != nil {
		panic(located(r, w.path))
	}
}

// blame is where.blame for a layer that is not a container: in a network that is a
// struct of its own nothing else says which layer failed.
func blame(layer any) {
	if r := recover(); r != nil {
		panic(located(r, func(below string) string {
			if below == "" {
				return about(layer)
			}
			return below
		}))
	}
}

// located returns the error of a panic its place, which path makes of the place
// below. Errors of ops that had been queued earlier are another layer's.
func located(r any, path func(below string) string) any {
	e, ok := r.(*locus.Error)
	if !ok || e == nil || e.Async {
		return r
	}
	l := *e // others may hold the error
	l.Layer = path(e.Layer)
	return &l
}

// path puts this place in front of a path below it.
func (w *where) path(below string) string {
	p := w.kind
	if w.field != "" {
		p += "." + w.field
	}
	if w.index >= 0 {
		p += "[" + strconv.Itoa(w.index) + "]"
	}
	switch {
	case w.layer == nil:
		return p
	case below == "", below == layerKind(w.layer), below == about(w.layer): // the layer itself, or its own arithmetic
		return p + " (" + about(w.layer) + ")"
	case isContainer(w.layer):
		return p + strings.TrimPrefix(below, layerKind(w.layer))
	}
	return p + " (" + layerKind(w.layer) + ") > " + below
}

// isContainer reports whether a layer is one of those that defer blame: what it
// says begins with its kind.
func isContainer(l any) bool {
	switch l.(type) {
	case *SequentialLayer, *ResidualLayer, *ResNetBlockLayer, *Encoder, *Decoder:
		return true
	}
	return false
}

// aboutConv returns the sizes of a convolution: "3→16, 5×5".
func aboutConv(weight []string, groups int) string {
	in := weight[1]
	if n, err := strconv.Atoi(in); err == nil {
		in = strconv.Itoa(n * max(groups, 1))
	}
	return in + "→" + weight[0] + ", " + strings.Join(weight[2:], "×")
}

// about returns a layer's kind and sizes: "Linear 256→10", "Conv2D 3→16, 5×5".
func about(l any) string {
	if v := reflect.ValueOf(l); v.Kind() == reflect.Pointer && v.IsNil() { // it has no sizes, and the error is about that
		return layerKind(l)
	}
	switch l := l.(type) {
	case *LinearLayer:
		if s := l.Weight.sizes(2); s != nil {
			return "Linear " + s[1] + "→" + s[0]
		}
	case *ConvLayer:
		rank, kind := 4, "Conv2D "
		if l.oneD {
			rank, kind = 3, "Conv1D "
		}
		if s := l.Weight.sizes(rank); s != nil {
			return kind + aboutConv(s, l.geo.Groups)
		}
	case *Conv3DLayer:
		if s := l.Weight.sizes(5); s != nil {
			return "Conv3D " + aboutConv(s, l.geo.Groups)
		}
	case *EmbeddingLayer:
		if s := l.Weight.sizes(2); s != nil {
			return "Embedding " + s[0] + "×" + s[1]
		}
	case *RecurrentLayer:
		if l.kind != nil && len(l.Cells) > 0 && l.Cells[0] != nil {
			if s := l.Cells[0].WeightIH.sizes(2); s != nil {
				return l.kind.name() + " " + s[1] + "→" + strconv.Itoa(l.hidden)
			}
		}
	case *BatchNormLayer:
		if s := l.Weight.sizes(1); s != nil {
			return "BatchNorm " + s[0]
		}
	case funcLayer:
		return l.name
	case *EncoderLayer:
		return "TransformerEncoderLayer"
	case *DecoderLayer:
		return "TransformerDecoderLayer"
	}
	return layerKind(l)
}

// sizes returns the sizes of a parameter with the given number of axes, "?" for
// one that is not known yet; nil if it has none or others.
func (p *Parameter) sizes(rank int) []string {
	if p == nil {
		return nil
	}
	shape := p.known.shape
	if v := p.value.Load(); v != nil {
		shape = v.Shape()
	}
	if len(shape) != rank {
		return nil
	}
	text := make([]string, rank)
	for i, n := range shape {
		text[i] = strconv.Itoa(n)
		if n < 0 {
			text[i] = "?"
		}
	}
	return text
}
