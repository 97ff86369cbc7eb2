package nn

import (
	"math"
	"strings"

	"github.com/locusml/locus"
)

// Initializer makes the first value of a parameter of the given shape: the
// maker knows device, element type and key.
type Initializer func(m locus.Maker, shape []int) *locus.Tensor

// Constant fills with a value.
func Constant(v float64) Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor { return m.Full(v, shape...) }
}

// Normal draws from a normal distribution.
func Normal(mean, std float64) Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor { return m.Randn(shape...).Mul(std).Add(mean) }
}

// Uniform draws uniformly from [low, high).
func Uniform(low, high float64) Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor { return m.Rand(shape...).Mul(high - low).Add(low) }
}

// XavierUniform draws uniformly so that the variance of signals is kept both
// forwards and backwards (Glorot and Bengio, 2010).
func XavierUniform() Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor {
		in, out := fans(shape)
		a := math.Sqrt(6 / float64(in+out))
		return Uniform(-a, a)(m, shape)
	}
}

// XavierNormal is XavierUniform with a normal distribution.
func XavierNormal() Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor {
		in, out := fans(shape)
		return Normal(0, math.Sqrt(2/float64(in+out)))(m, shape)
	}
}

// KaimingUniform draws uniformly so that the variance of signals is kept
// through rectifiers (He et al., 2015).
func KaimingUniform() Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor {
		in, _ := fans(shape)
		a := math.Sqrt(6 / float64(max(in, 1)))
		return Uniform(-a, a)(m, shape)
	}
}

// KaimingNormal is KaimingUniform with a normal distribution.
func KaimingNormal() Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor {
		in, _ := fans(shape)
		return Normal(0, math.Sqrt(2/float64(max(in, 1))))(m, shape)
	}
}

// FanIn draws uniformly from ±1/√fan, what PyTorch does for the weights and
// biases of linear and convolution layers. fan 0 takes it from the shape.
func FanIn(fan int) Initializer {
	return func(m locus.Maker, shape []int) *locus.Tensor {
		n := fan
		if n == 0 {
			n, _ = fans(shape)
		}
		a := 1 / math.Sqrt(float64(max(n, 1)))
		return Uniform(-a, a)(m, shape)
	}
}

// fans counts the inputs of an output and the outputs of an input, for weights
// of shape (out, in, …).
func fans(shape []int) (in, out int) {
	if len(shape) < 2 {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return n, n
	}
	field := 1
	for _, d := range shape[2:] {
		field *= d
	}
	return shape[1] * field, shape[0] * field
}

// role is what a parameter is to its layer, which [Initialize] goes by.
type role uint8

const (
	unknownRole role = iota // of a layer of the program's own
	weightRole              // what an input is multiplied by in a sum of many
	biasRole                // what is added
	ownRole                 // anything else: gains, tables, slopes
)

// asBias makes p a bias. It returns p.
func (p *Parameter) asBias() *Parameter {
	p.role = biasRole
	return p
}

// Initialize sets every parameter of a network to a new first value, from key:
// weights (of linear layers, convolutions, recurrent layers, attention) one from
// the initializer, biases zeros, and everything else the value that it has in a new
// layer: gains of normalizations ones, rows of embeddings, positions and slopes
// their own. Of the parameters of a program's own layers those with two or more
// axes are weights, one called bias is a bias, and the others stay as they are.
// Buffers stay as they are. Lazy layers must have seen an input before.
func Initialize(m any, key locus.Key, weights Initializer) {
	if weights == nil {
		fail(locus.ErrArgument, "nn.Initialize", "the initializer is nil", "pass one such as nn.XavierUniform()")
	}
	params := Parameters(m)
	for _, e := range params {
		if e.Value() == nil {
			fail(locus.ErrArgument, "nn.Initialize", e.Name+" has no shape yet", "run Forward once first")
		}
	}
	for i, e := range params {
		v := e.Value()
		if init := e.initializer(v.Rank(), weights); init != nil {
			e.Set(init(v.Device().As(v.DType()).Key(key.Fold(uint64(i))), v.Shape()))
		}
	}
}

// initializer chooses what makes the entry's first value; nil for nothing.
func (e Entry) initializer(rank int, weights Initializer) Initializer {
	role := unknownRole
	if e.param != nil {
		role = e.param.role
	}
	if role == unknownRole {
		switch {
		case rank >= 2:
			role = weightRole
		case e.Name == "bias" || strings.HasSuffix(e.Name, ".bias"):
			role = biasRole
		}
	}
	switch role {
	case weightRole:
		return weights
	case biasRole:
		return Constant(0)
	case ownRole:
		return e.param.first
	}
	return nil
}
