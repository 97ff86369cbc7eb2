package collective

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/mpi"
)

// remote is a rank among those of other processes. Main memory goes through host; what is on
// a GPU is copied to page-locked memory and back.
type remote struct {
	member     *control.Member
	host       engine.Host
	rank, size int
	cards      *cards // of GPUs by NCCL; nil if not all ranks have it
	whyNot     string // why not

	cfg control.Config // as the group was joined
	lib *ncclLibrary   // nil if this rank has none
}

func (e *remote) name(d locus.Device) string {
	if e.cards == nil || !d.IsGPU() || e.cards.cardOf(d.As(locus.Uint8).Zeros(1)) == nil {
		return e.host.Name()
	}
	e.cards.mu.Lock()
	defer e.cards.mu.Unlock()
	if e.cards.decided && e.cards.comm == nil {
		return e.host.Name()
	}
	return "nccl"
}

func (e *remote) explain() string {
	s, why := e.host.Name(), e.whyNot
	if c, ok := e.host.(*mpi.Comm); ok {
		s += " (" + c.Version() + ")"
	}
	if e.cards != nil {
		e.cards.mu.Lock()
		defer e.cards.mu.Unlock()
		if why = e.cards.whyNot; why == "" {
			return s + "; GPUs by " + e.cards.lib.String()
		}
	}
	return s + "; GPUs by way of main memory: " + why
}

func (e *remote) over() <-chan struct{} { return e.member.Over() }
func (e *remote) fault() error          { return e.member.Fault() }
func (e *remote) fail(why string)       { e.member.Fail(why) }

func (e *remote) close() {
	if e.cards != nil {
		e.cards.close()
	}
	broken := e.member.Fault() != nil
	e.member.Close()
	e.host.Close(broken)
}

// abandoned is memory that calls which were left behind still use.
var abandoned struct {
	sync.Mutex
	memory []any
}

func (e *remote) blame(err error) error {
	var m *engine.Mismatch
	if errors.As(err, &m) {
		return err // nobody knows better
	}
	return e.member.Blame(err)
}

func (e *remote) enter(ctx context.Context, j *job) error {
	if j.kind != barrier && e.cards.cardOf(j.x) != nil {
		j.text += " on GPUs" // all must be, or none
	}
	return e.member.Enter(ctx, j.seq, j.text, j.kind == barrier)
}

func (e *remote) late(j *job, after time.Duration) {
	if j.kind == send || j.kind == recv {
		e.member.LateWith(j.root, lateText(j, after))
		return
	}
	e.member.Late(j.seq, after)
}

func (e *remote) run(ctx context.Context, j *job) (*locus.Tensor, error) {
	if e.cards != nil && (j.kind == send || j.kind == recv) {
		return e.message(ctx, j)
	}
	if d := e.cards.cardOf(j.x); d != nil {
		ok, err := e.cards.decide(ctx, d)
		if err != nil {
			return nil, err
		}
		if ok {
			return e.cards.run(ctx, j, d)
		}
	}
	return e.stage(ctx, j)
}

// stage does a job in main memory. An operand on a GPU is copied there, and the result back.
func (e *remote) stage(ctx context.Context, j *job) (*locus.Tensor, error) {
	s := locus.NewScope()
	defer s.Close()
	d := j.x.Device()
	_, leaves := e.host.(*mpi.Comm) // calls that go on behind a program whose memory it is
	var x, out *locus.Tensor
	var in, to lend.Loan
	var err error
	defer func() {
		if errors.Is(err, engine.ErrAbandoned) {
			abandoned.Lock()
			defer abandoned.Unlock()
			abandoned.memory = append(abandoned.memory, x, out, in, to)
			return
		}
		in.Release()
		to.Release()
	}()
	if gives(j, e.rank) {
		x = s.Use(j.x)
		if d.IsGPU() {
			x = x.Pin()
		}
		x = x.Contiguous()
		if j.into != nil && leaves {
			x = x.Copy()
		}
		in = lend.Memory(j.name, x)
	}
	if shape, ok := gets(j, e.rank); ok {
		if out = j.into; out == nil || d.IsGPU() || leaves {
			out = lend.Make(j.name, locus.CPU(), d.IsGPU(), j.x.DType(), shape).(*locus.Tensor)
		}
		to = lend.Memory(j.name, out)
	}
	if err = e.move(ctx, j, in.Bytes(), to.Bytes()); err != nil || out == nil {
		if out != nil {
			out.Free() // what was left behind holds it
		}
		return nil, err
	}
	if j.kind == broadcast && e.rank == j.root {
		copy(to.Bytes(), in.Bytes())
	}
	if d.IsGPU() {
		staged := out
		out = staged.To(d)
		staged.Free() // its memory stays until the device has read it
	}
	return out, nil
}

func (e *remote) move(ctx context.Context, j *job, in, out []byte) error {
	c := &engine.Call{Seq: j.seq, Kind: control.Hash(j.text), DType: j.x.DType(), Op: engine.Op(j.op), Root: j.root, In: in, Out: out}
	if j.rows != nil {
		c.Parts = make([]int, len(j.rows))
		for i, r := range j.rows {
			c.Parts[i] = r * width(j.x)
		}
	}
	switch j.kind {
	case allReduce:
		return e.host.AllReduce(ctx, c)
	case reduce:
		return e.host.Reduce(ctx, c)
	case broadcast:
		return e.host.Broadcast(ctx, c)
	case allGather:
		return e.host.AllGather(ctx, c)
	case reduceScatter:
		return e.host.ReduceScatter(ctx, c)
	case send:
		return e.host.Send(ctx, j.root, in, j.text)
	default:
		return e.host.Recv(ctx, j.root, out, j.text)
	}
}

// gives reports whether the rank's operand is read.
func gives(j *job, rank int) bool {
	return j.kind != recv && (j.kind != broadcast || rank == j.root)
}

// gets returns the shape of the rank's result, if it has one.
func gets(j *job, rank int) (shape []int, ok bool) {
	shape = j.x.Shape()
	switch j.kind {
	case send:
		return nil, false
	case reduce:
		return shape, rank == j.root
	case allGather:
		if len(shape) == 0 {
			shape = []int{1}
		}
		shape[0] = j.rows[len(j.rows)-1]
	case reduceScatter:
		shape[0] = j.rows[rank+1] - j.rows[rank]
	}
	return shape, true
}

// width returns the number of elements of a row.
func width(x *locus.Tensor) int {
	n := 1
	if x.Rank() > 0 {
		for _, d := range x.Shape()[1:] {
			n *= d
		}
	}
	return n
}
