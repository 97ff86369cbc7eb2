package nn

import (
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Option changes how a layer is made.
type Option func(*options)

type options struct {
	noBias       bool
	dtype        locus.DType
	weight, bias Initializer
	key          locus.Key
	keyed        bool
	padding      *int
}

// NoBias leaves the bias out.
func NoBias() Option { return func(o *options) { o.noBias = true } }

// WithInit sets the initializer of the weights.
func WithInit(w Initializer) Option { return func(o *options) { o.weight = w } }

// WithBiasInit sets the initializer of the bias.
func WithBiasInit(b Initializer) Option { return func(o *options) { o.bias = b } }

// WithKey sets the key that first values come from; without it they come from
// the program's sequence of keys (see locus.Seed).
func WithKey(k locus.Key) Option { return func(o *options) { o.key, o.keyed = k, true } }

// WithDType sets the element type of the parameters, which is float32 otherwise.
func WithDType(d locus.DType) Option { return func(o *options) { o.dtype = d } }

// PaddingIndex names the row of an [Embedding] that stands for padding: it is
// zero at first, and training leaves it as it is.
func PaddingIndex(i int) Option { return func(o *options) { o.padding = &i } }

func gather(opts []Option) options {
	o := options{dtype: locus.Float32}
	for _, f := range opts {
		gate.Check("nn.Option", gate.Given("an option", f))
		f(&o)
	}
	if !o.dtype.IsFloat() {
		fail(locus.ErrDType, "nn.WithDType", "the parameters of a layer are floating-point numbers, not "+o.dtype.String(), "")
	}
	if !o.keyed {
		o.key = locus.NextKey()
	}
	return o
}

// parts returns the options for one layer after the other of those that a larger
// one is made of: the same, but for keys of their own.
func parts(opts []Option) func() []Option {
	key, n := gather(opts).key, uint64(0)
	return func() []Option {
		n++
		return append(slices.Clone(opts), WithKey(key.Fold(n)))
	}
}

// lazy makes a weight without a value; -1 is a size that is not known yet.
func (o options) lazy(shape ...int) *Parameter {
	return &Parameter{lazy: lazy{known: known{o.dtype, shape}}, role: weightRole}
}

// lazyBuffer is lazy for a buffer.
func (o options) lazyBuffer(shape ...int) *Buffer {
	return &Buffer{lazy: lazy{known: known{o.dtype, shape}}}
}

// weightOr returns the initializer of the weights that was asked for, else init.
func (o options) weightOr(init Initializer) Initializer {
	if o.weight != nil {
		return o.weight
	}
	return init
}

// lazyBias is lazy for a bias, nil if there is to be none.
func (o options) lazyBias(shape ...int) *Parameter {
	if o.noBias {
		return nil
	}
	return o.lazy(shape...).asBias()
}

// make sets the first values of a layer's weight and bias (which may be nil),
// with the initializers that were asked for, else with those given.
func (o options) make(d locus.Device, weight *Parameter, wInit Initializer, bias *Parameter, bInit Initializer, shape ...int) {
	weight.make(d, o.dtype, o.key.Fold(0), o.weightOr(wInit), shape...)
	o.makeBias(d, bias, bInit, shape[0])
}

// makeBias is make for the bias alone.
func (o options) makeBias(d locus.Device, bias *Parameter, init Initializer, n int) {
	if bias == nil {
		return
	}
	if o.bias != nil {
		init = o.bias
	}
	bias.make(d, o.dtype, o.key.Fold(1), init, n)
}
