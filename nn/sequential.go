package nn

import (
	"slices"
	"strconv"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// SequentialLayer applies its layers one after the other.
type SequentialLayer struct {
	Layers []Module `nn:"inline"` // their parameters are called "0.weight", "1.bias", …
}

// Sequential makes a network of layers that are applied one after the other.
func Sequential(layers ...Module) *SequentialLayer {
	return new(SequentialLayer).Add(layers...)
}

// joiner is a layer that can apply itself and an activation in one go.
type joiner interface {
	then(x *locus.Tensor, a locus.Activation) *locus.Tensor
}

// Forward applies the layers in order, a linear layer or a convolution and an
// activation behind it in one go (see [locus.Linear]).
func (s *SequentialLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Sequential", s != nil)
	w := where{kind: "Sequential"}
	defer w.blame()
	own := false // x is a result that nothing else has a handle of
	for i := 0; i < len(s.Layers); i++ {
		w.at("", i, s.Layers[i])
		if s.Layers[i] == nil { // put there by hand: Add refuses it
			fail(locus.ErrArgument, "nn.Sequential", "layer "+strconv.Itoa(i)+" is nil", "")
		}
		if l, ok := s.Layers[i].(joiner); ok && i+1 < len(s.Layers) {
			if f, ok := s.Layers[i+1].(funcLayer); ok && f.activation != locus.NoActivation {
				y := l.then(x, f.activation)
				if own {
					lose(y, x)
				}
				x, own = y, true
				i++
				continue
			}
		}
		y := s.Layers[i].Forward(x)
		if f, ok := s.Layers[i].(funcLayer); own && ok && f.activation != locus.NoActivation {
			spend(y, x)
		} else if own && fresh(s.Layers[i]) {
			lose(y, x)
		}
		own = fresh(s.Layers[i]) && (own || y != x)
		x = y
	}
	return x
}

// To moves the network to d and returns it: see [To].
func (s *SequentialLayer) To(d locus.Device) *SequentialLayer { return To(s, d) }

// Add puts layers at the end.
func (s *SequentialLayer) Add(layers ...Module) *SequentialLayer {
	made("nn.Sequential", s != nil)
	for i, l := range layers {
		present("nn.Sequential", "layer "+strconv.Itoa(len(s.Layers)+i), l)
		if holds(l, s) {
			fail(locus.ErrArgument, "nn.Sequential", "a network cannot be a layer of itself", "")
		}
	}
	s.Layers = append(s.Layers, layers...)
	return s
}

// holds reports whether s is m or below it.
func holds(m Module, s *SequentialLayer) bool {
	switch l := m.(type) {
	case *SequentialLayer:
		return l == s || l != nil && slices.ContainsFunc(l.Layers, func(m Module) bool { return holds(m, s) })
	case *ResidualLayer:
		return l != nil && (holds(l.Body, s) || holds(l.Shortcut, s))
	}
	return false
}

// At returns layer i; negative positions count from the end.
func (s *SequentialLayer) At(i int) Module {
	made("nn.Sequential", s != nil)
	n := len(s.Layers)
	if i < -n || i >= n {
		fail(locus.ErrIndex, "nn.Sequential", "there is no layer "+strconv.Itoa(i)+"; there are "+strconv.Itoa(n), "")
	}
	if i < 0 {
		i += n
	}
	return s.Layers[i]
}

// Func makes a layer from a function without parameters.
func Func(f func(x *locus.Tensor) *locus.Tensor) Module {
	gate.Check("nn.Func", gate.Given("the function", f))
	return funcLayer{name: "Func", f: f, foreign: true}
}

type funcLayer struct {
	name       string
	f          func(x *locus.Tensor) *locus.Tensor
	activation locus.Activation // that f is
	foreign    bool             // f is the program's
}

func (l funcLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.f(x) }

// String returns the layer's name.
func (l funcLayer) String() string { return l.name }

// Flatten makes one axis of all but the first, which counts the batch.
func Flatten() Module {
	return named("Flatten", func(x *locus.Tensor) *locus.Tensor { return x.FlattenFrom(1) })
}
