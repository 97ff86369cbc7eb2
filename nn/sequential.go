package nn

import "github.com/locusml/locus"

// SequentialLayer applies its layers one after the other.
type SequentialLayer struct {
	Layers []Module
}

// Sequential makes a network of layers that are applied one after the other.
func Sequential(layers ...Module) *SequentialLayer { return &SequentialLayer{layers} }

// Forward applies the layers in order.
func (s *SequentialLayer) Forward(x *locus.Tensor) *locus.Tensor {
	for _, l := range s.Layers {
		x = l.Forward(x)
	}
	return x
}

// To moves the network to d and returns it: see [To].
func (s *SequentialLayer) To(d locus.Device) *SequentialLayer { return To(s, d) }

// Add puts layers at the end.
func (s *SequentialLayer) Add(layers ...Module) *SequentialLayer {
	s.Layers = append(s.Layers, layers...)
	return s
}

// At gives layer i; negative positions count from the end.
func (s *SequentialLayer) At(i int) Module {
	if i < 0 {
		i += len(s.Layers)
	}
	return s.Layers[i]
}

// Func makes a layer of a function without parameters.
func Func(f func(x *locus.Tensor) *locus.Tensor) Module { return funcLayer{"Func", f} }

type funcLayer struct {
	name string
	f    func(x *locus.Tensor) *locus.Tensor
}

func (l funcLayer) Forward(x *locus.Tensor) *locus.Tensor { return l.f(x) }

// String gives the layer's name.
func (l funcLayer) String() string { return l.name }

// Layers without parameters.
func named(name string, f func(x *locus.Tensor) *locus.Tensor) Module { return funcLayer{name, f} }

// ReLU is max(x, 0).
func ReLU() Module { return named("ReLU", (*locus.Tensor).Relu) }

// Sigmoid is 1/(1+e⁻ˣ).
func Sigmoid() Module { return named("Sigmoid", (*locus.Tensor).Sigmoid) }

// Tanh is the hyperbolic tangent.
func Tanh() Module { return named("Tanh", (*locus.Tensor).Tanh) }

// GELU is x·Φ(x).
func GELU() Module { return named("GELU", (*locus.Tensor).Gelu) }

// SiLU is x·sigmoid(x).
func SiLU() Module { return named("SiLU", (*locus.Tensor).Silu) }

// Softmax turns scores along an axis into probabilities.
func Softmax(axis int) Module {
	return named("Softmax", func(x *locus.Tensor) *locus.Tensor { return x.Softmax(axis) })
}

// Flatten makes one axis of all but the first, which counts the batch.
func Flatten() Module {
	return named("Flatten", func(x *locus.Tensor) *locus.Tensor { return x.FlattenFrom(1) })
}
