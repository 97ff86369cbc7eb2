package nn

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/plain"
)

// CompiledLayer is a network that runs as a compiled program. Make one with [Compiled].
type CompiledLayer struct {
	Net Module `nn:"inline"`

	training atomic.Bool
	once     sync.Once
	program  *locus.Compiled
}

// Compiled puts a network into inference mode, as [Eval] does, and returns it as a
// layer whose Forward runs a program in place of calling the network: see locus.Compile.
// The results are those of the network to the bit, with the exception that locus.Compile
// names.
//
//	fast := nn.Compiled(net)
//	y := fast.Forward(x)
//
// The parameters are the network's own, under the same names: further training, loading
// weights and moving it to another device take effect at once. Each size of batch is a
// program of its own, up to eight; further ones are computed by the network itself, so
// pass it batches of few sizes. Results have no history. With [Train] the layer calls
// the network as it is written, and so it does for an x through which gradients flow; a
// network that cannot be compiled is called too, and Fallback says why. Any number of
// goroutines may use it; they take turns.
func Compiled(net Module) *CompiledLayer {
	present("nn.Compiled", "the network", net)
	return &CompiledLayer{Net: Eval(net)}
}

// Forward computes the network on x.
func (l *CompiledLayer) Forward(x *locus.Tensor) *locus.Tensor {
	made("nn.Compiled", l != nil && l.Net != nil)
	checkTensor("nn.Compiled", x)
	if l.training.Load() || x.RequiresGrad() {
		return l.Net.Forward(x)
	}
	y := l.compiled().Call(x)[0]
	if y == nil {
		fail(locus.ErrArgument, "nn.Compiled", "the network returned nil", "")
	}
	return y
}

// Explain says what became of the network: see locus.Compiled.
func (l *CompiledLayer) Explain() string { return l.compiled().Explain() }

// Fallback says why the last call was computed by the network itself, and how to change
// that; "" if it was not.
func (l *CompiledLayer) Fallback() string { return l.compiled().Fallback() }

// Report makes the layer write a line to w whenever the network is traced: see
// locus.Compiled.
func (l *CompiledLayer) Report(w io.Writer) { l.compiled().Report(w) }

// compiled returns the network as a compiled function.
func (l *CompiledLayer) compiled() *locus.Compiled {
	made("nn.Compiled", l != nil && l.Net != nil)
	l.once.Do(func() {
		l.program = locus.Compile(func(a ...*locus.Tensor) (out []*locus.Tensor) {
			defer plain.Watch(l, l.Net, func() []Entry { return State(l.Net) })()
			locus.NoGrad(func() { out = []*locus.Tensor{l.Net.Forward(a[0])} })
			return out
		}, plain.Fields(Cells(l.Net))...).Lenient()
	})
	return l.program
}

// SetTraining makes the layer call the network as it is written, or run it as a
// program.
func (l *CompiledLayer) SetTraining(on bool) {
	made("nn.Compiled", l != nil)
	if !on && l.training.Load() && l.Net != nil {
		l.compiled().Recheck() // Go values may have changed while it was trained
	}
	l.training.Store(on)
}

func (l *CompiledLayer) cloneLayer(c *cloner) any {
	made("nn.Compiled", l.Net != nil)
	n := &CompiledLayer{Net: cloned(c, l.Net)}
	n.training.Store(l.training.Load())
	return n
}
