package program

import (
	"fmt"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
)

// Runner is the default executor: it hands the steps to the device one after the
// other, and frees memory behind the last step that uses it. One goroutine at a
// time may use it.
type Runner struct {
	p      *Program
	device backend.Device
	pool   *memory.Pool
	calls  []backend.Call
	binds  []bind
	first  []int           // by step: its first bind; one more at the end
	moved  map[int][]int   // by value from outside: its binds
	last   [][]int         // by step: values that nobody needs behind it
	loose  []int           // values without a step that makes them
	blocks []*memory.Block // by value, during a run
	labels []func() memory.Label
	flying flights
}

// bind is a place in a call that gets a value's memory.
type bind struct {
	view          *backend.View
	value, offset int
}

// Binding is the memory of a value from outside, and where in it the tensor that
// was traced at offset 0 begins.
type Binding struct {
	Value  int
	Block  *memory.Block
	Offset int // elements

	// Offered says that what a variable is set to may be written over the value, if
	// nobody but the caller holds the block, and Spare, if it is not nil, agrees.
	Offered bool
	Spare   Spare
}

// Spare is a variable that may have shown its value to somebody.
type Spare interface {
	// Spare reports whether nobody has seen the value, and nobody will until the
	// variable is set or Unspare is called.
	Spare() bool
	Unspare()
}

// StepError says which step failed.
type StepError struct {
	Step *Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s at %s: %v", e.Step.Op, e.Step.Site, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// NewRunner returns an executor of p, which must not change afterwards.
func NewRunner(p *Program, device backend.Device, pool *memory.Pool) *Runner {
	r := &Runner{p: p, device: device, pool: pool, calls: make([]backend.Call, len(p.Steps)), last: make([][]int, len(p.Steps)),
		first: make([]int, 0, len(p.Steps)+1), moved: map[int][]int{}, blocks: make([]*memory.Block, len(p.Values)), labels: labels(p)}
	used := make([]int, len(p.Values)) // 1 + the last step that uses it
	made := make([]bool, len(p.Values))
	for i := range p.Steps {
		s, c := &p.Steps[i], &r.calls[i]
		r.first = append(r.first, len(r.binds))
		c.Op, c.Attrs, c.Step = s.Op, s.Attrs, s
		c.In, c.More = make([]backend.View, len(s.In)), make([]backend.View, len(s.More))
		c.Out = s.Out.View
		set := func(v *backend.View, ref *Ref) {
			*v = ref.View
			if ref.Value >= 0 {
				used[ref.Value] = i + 1
				if p.Values[ref.Value].Kind != Temp {
					r.moved[ref.Value] = append(r.moved[ref.Value], len(r.binds))
				}
				r.binds = append(r.binds, bind{v, ref.Value, ref.View.Offset})
			}
		}
		for k := range s.In {
			set(&c.In[k], &s.In[k])
		}
		set(&c.Out, &s.Out)
		for k := range s.More {
			set(&c.More[k], &s.More[k])
		}
		s.Outs(func(o *Ref) { made[o.Value] = true })
	}
	r.first = append(r.first, len(r.binds))
	kept := make([]bool, len(p.Values))
	for _, o := range p.Results {
		if o.Value >= 0 {
			kept[o.Value] = true
		}
	}
	for i, v := range p.Values {
		if v.Kind != Temp || !made[i] && used[i] == 0 && !kept[i] {
			continue
		}
		if !made[i] {
			r.loose = append(r.loose, i)
		}
		if !kept[i] {
			r.last[used[i]-1] = append(r.last[used[i]-1], i)
		}
	}
	return r
}

// Run runs the program with the given memory for the values that are not
// temporary, which the caller holds. It returns the blocks of all values, which are
// valid until the next run; those that were made for results are the caller's. On
// an error everything that it has made is freed.
func (r *Runner) Run(outside []Binding) (blocks []*memory.Block, err error) {
	defer func() {
		r.flying.end(err)
		if err != nil {
			r.drop()
		}
	}()
	for _, b := range outside {
		r.blocks[b.Value] = b.Block
		for _, i := range r.moved[b.Value] {
			r.binds[i].view.Offset = r.binds[i].offset + b.Offset
		}
	}
	for _, v := range r.loose {
		if err := r.allocate(v); err != nil {
			return nil, err
		}
	}
	for i := range r.calls {
		s, c := &r.p.Steps[i], &r.calls[i]
		if err := r.allocate(s.Out.Value); err != nil {
			return nil, &StepError{s, err}
		}
		for k := range s.More {
			if err := r.allocate(s.More[k].Value); err != nil {
				return nil, &StepError{s, err}
			}
		}
		binds := r.binds[r.first[i]:r.first[i+1]]
		for k := range binds {
			binds[k].view.Block = r.blocks[binds[k].value]
		}
		if s.Late != nil {
			c.Attrs = s.Late()
		}
		err := r.flying.queue(r.device, s, c)
		for k := range binds {
			binds[k].view.Block = nil // the program keeps no memory alive
		}
		if err != nil {
			return nil, &StepError{s, err}
		}
		for _, v := range r.last[i] {
			r.blocks[v].Free()
			r.blocks[v] = nil
		}
	}
	return r.blocks, nil
}

func (r *Runner) allocate(v int) error {
	b, err := r.pool.Allocate(r.p.Values[v].Bytes, r.labels[v])
	r.blocks[v] = b
	return err
}

// Over reports false: every value has memory of its own.
func (*Runner) Over(int) bool { return false }

// Clear forgets the blocks of the last run.
func (r *Runner) Clear() { clear(r.blocks) }

// drop frees what a run that failed has made.
func (r *Runner) drop() {
	for i, b := range r.blocks {
		if b != nil && r.p.Values[i].Kind == Temp {
			b.Free()
		}
	}
	r.Clear()
}
