package train

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/plain"
	"github.com/locusml/locus/nn"
)

// Compile says whether steps are compiled (see locus.Compile), which they are unless
// it is false: training, validation and prediction are traced, and from then on run
// as programs that call neither Forward nor Loss. Results are the same to the bit, but for
// convolutions on the tensor cores of NVIDIA GPUs, which add up in another order.
// Callbacks, PrepareBatch and datasets are called as ever; what the model itself does
// to Go variables happens only while it is traced. Where a step cannot be compiled it
// is computed as it is written; [Report].Uncompiled and a line of [Progress] say why.
func Compile(on bool) Option { return Option{func(s *settings) { s.eager = !on }} }

// Recompute makes compiled steps compute cheap values again instead of keeping them for
// the backward part, where that lowers the peak of memory: see locus.Compiled. Results
// are the same to the bit, and a step takes a few percent longer. Use it where a batch
// nearly fits. It has no effect on steps that are not compiled.
func Recompute() Option { return Option{func(s *settings) { s.recompute = true }} }

// Explain writes, when Fit ends, what became of its compiled steps: what was traced and
// why, and the programs; see locus.Compiled.
func Explain(w io.Writer) Option { return Option{func(s *settings) { s.explain = w }} }

// explain writes what became of the parts of a run's steps, those of the first device.
func (r *run) explain() {
	all := func(c *locus.Compiled) string { return "\n" + c.Explain() }
	short := func(c *locus.Compiled) string {
		return " " + strings.ReplaceAll(strings.TrimSuffix(c.Summary(), "\n"), "\n", "\n  ") + "\n"
	}
	for _, o := range []struct {
		w   io.Writer
		say func(*locus.Compiled) string
	}{{r.set.explain, all}, {r.set.summary, short}} {
		if o.w == nil {
			continue
		}
		for _, x := range r.stages() {
			switch {
			case x.c == nil || x.c.calls == 0:
			case x.c.c == nil:
				fmt.Fprintf(o.w, "%s: not compiled, as the options ask\n", x.name)
			case x.c.calls == 1:
				fmt.Fprintf(o.w, "%s: not compiled, as there was only one\n", x.name)
			default:
				fmt.Fprintf(o.w, "%s:%s", x.name, o.say(x.c.c))
			}
		}
	}
}

// stage is a part of a run's steps, with its name.
type stage struct {
	name string
	c    *compiled
}

// stages lists the parts of a run's steps, those of the first device.
func (r *run) stages() []stage {
	if len(r.replicas) == 0 {
		return nil
	}
	p := r.replicas[0]
	parts := []stage{{"a step", p.whole}, {"the gradients of a batch", p.first}, {"the gradients of one more batch", p.more}, {"the update", r.apply}, {"a batch of validation", nil}}
	if r.evaluation != nil {
		parts[len(parts)-1].c = r.evaluation.steps[0]
	}
	return parts
}

// compiled is a part of a step: a function of tensors that is compiled where it can
// be, and called where it cannot.
type compiled struct {
	f     func(args ...*locus.Tensor) []*locus.Tensor
	c     *locus.Compiled // nil: f is called
	calls int
	told  bool
	why   *reason
}

// reason is why some of a run's steps are not compiled.
type reason struct {
	mu   sync.Mutex
	text string
	tell func(text string) // once, with the first reason; may be nil
}

func (w *reason) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text != "" {
		return
	}
	w.text = text
	if w.tell != nil {
		w.tell(text)
	}
}

func (w *reason) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}

// compile returns f, which computes with a network, as a part of a step.
func (s *settings) compile(why *reason, net any, f func(args ...*locus.Tensor) []*locus.Tensor) *compiled {
	c := &compiled{f: f, why: why}
	if !s.eager {
		c.c = locus.Compile(f, plain.Fields(nn.Cells(net))...).Lenient() // a model that reads a value can be trained all the same
		if s.recompute {
			c.c.Recompute()
		}
	}
	return c
}

// watch makes a program that is traced depend on the plain Go values of a model; see
// package plain. The function that it returns must be called when the model has
// computed.
func watch(m any) (done func()) {
	return plain.Watch(nil, m, func() []nn.Entry { return nn.State(m) }) // a trace is of one model
}

// call computes f. The first call is never compiled: it makes what the others find,
// such as an optimizer's momentum and the sums of metrics, and what is wrong with a
// model shows as it would without a trainer.
func (c *compiled) call(args ...*locus.Tensor) []*locus.Tensor {
	if c.calls++; c.c == nil || c.calls == 1 {
		return c.f(args...)
	}
	if c.calls >= firstCheck && c.calls&(c.calls-1) == 0 {
		c.c.Recheck()
	}
	out := c.c.Call(args...)
	if !c.told {
		if why := c.c.Fallback(); why != "" {
			c.told = true
			if strings.Contains(why, "signatures") {
				why += ": batches of many shapes, or a field of the model that keeps changing; those that are new are computed as they are written"
			}
			c.why.add(why)
		}
	}
	return out
}

// firstCheck is the call before which what was traced is compared once more with what
// the model computes; then after twice as many calls each time. So a model that uses a
// Go value that changes is found out, if late.
const firstCheck = 16

// recheck makes the next call compare what was traced with what the model computes.
func (c *compiled) recheck() {
	if c != nil && c.c != nil {
		c.c.Recheck()
	}
}

// recheck is called when callbacks may have changed Go values that the model uses.
func (r *run) recheck() {
	if len(r.set.afterEpoch)+len(r.set.beforeEpoch)+len(r.set.afterStep)+len(r.set.beforeStep)+len(r.set.prepareBatch) == 0 {
		return
	}
	for _, p := range r.replicas {
		p.first.recheck()
		p.more.recheck()
		p.whole.recheck()
	}
	if r.evaluation != nil {
		for _, c := range r.evaluation.steps {
			c.recheck()
		}
	}
}
