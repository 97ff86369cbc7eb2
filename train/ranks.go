package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/agree"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train/metric"
	"github.com/locusml/locus/weights"
)

// Ranks trains together with the other ranks of a group: programs on this machine or on
// others, or goroutines of this program. Every rank makes the same trainer, model and data and
// calls Fit; Data.BatchSize is that of the batch over all ranks, of which each reads its part.
//
//	g, err := collective.Join(ctx) // alone: a group of one
//	defer g.Close()
//	train.New(train.Ranks(g), train.Devices(place.Device())).Fit(model, set)
//
// The ranks begin with rank 0's parameters, buffers and optimizer state, sum their gradients
// before each update, and stay equal to the bit, which is checked at the beginning of every
// epoch. Losses and metrics are those over all ranks, and every rank's report has them.
// Callbacks run on every rank and must do the same to the model on each. Only rank 0 draws on
// [Board] and [Progress], and writes [Checkpoints]; all read them at [Resume], so the folder
// must be one that all can read. A rank whose context ends, or whose callback returns
// [ErrStop], ends training on all of them. A rank that fails ends the group: the others'
// Fit returns an error that names it, of kind collective.ErrRank.
//
// Validate, Test and Predict divide their work too, and all ranks must call them.
func Ranks(g *collective.Group) Option {
	return Option{func(s *settings) { s.group, s.ranked = g, true }}
}

// ranks is the part that this program has in a group of several. Nil is a program alone.
type ranks struct {
	g          *collective.Group
	ctx        context.Context // of collectives: what ends a run must not break one off
	rank, size int
	settled    bool // all ranks know, by an agreement, that this is the end
}

func newRanks(ctx context.Context, s *settings) *ranks {
	if s.group == nil || s.group.Size() == 1 {
		return nil
	}
	return &ranks{g: s.group, ctx: context.WithoutCancel(ctx), rank: s.group.Rank(), size: s.group.Size()}
}

// context returns that of collectives, also where there are no other ranks.
func (k *ranks) context() context.Context {
	if k == nil {
		return context.Background()
	}
	return k.ctx
}

// settle notes that all ranks have found the same reason to end.
func (k *ranks) settle() {
	if k != nil {
		k.settled = true
	}
}

// first reports whether this rank writes what all ranks know.
func (k *ranks) first() bool { return k == nil || k.rank == 0 }

// of returns the rank's number and that of all.
func (k *ranks) of() (rank, size int) {
	if k == nil {
		return 0, 1
	}
	return k.rank, k.size
}

// place returns the number of a rank's i-th of n devices among those of all ranks.
func (k *ranks) place(i, n int) int {
	rank, _ := k.of()
	return rank*n + i
}

// abort tells the other ranks of invalid settings.
func (s *settings) abort(err error) {
	if s.group != nil {
		_ = locus.Try(func() { s.group.Abort(err) }) // a zero value has no others
	}
}

// abort tells the others that this rank gives up, unless they know.
func (k *ranks) abort(err error) {
	if k != nil && err != nil && !k.settled {
		k.g.Abort(err)
	}
}

// end is whether training is to end, and how: the highest of all ranks counts.
type end int64

const (
	goesOn end = iota
	interrupted
	stopped // by a callback
)

// agree returns what the ranks make of each one's own.
func (k *ranks) agree(own end) (end, error) {
	if k == nil {
		return own, nil
	}
	e, err := agree.Max(k.ctx, k.g, int64(own))
	return end(e), err
}

// errElsewhere is the reason of a run that ended because another rank's context did.
var errElsewhere = fmt.Errorf("another rank was interrupted: %w", context.Canceled)

// why returns the reason of an interruption.
func why(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errElsewhere
}

// ends reports whether training is to end before the next batch.
func (r *run) ends() (end, error) {
	own := goesOn
	switch {
	case r.stopping:
		own = stopped
	case r.ctx.Err() != nil:
		own = interrupted
	}
	return r.ranks.agree(own)
}

// heed makes a callback's [ErrStop] one that all ranks stop for, at their next agreement.
func (r *run) heed(err error) error {
	if r.ranks != nil && errors.Is(err, ErrStop) {
		r.stopping = true
		return nil
	}
	return err
}

// bucketBytes is the size up to which tensors are reduced and copied as one.
const bucketBytes = 8 << 20

// together starts a collective on the tensors, which it joins to few large ones, and returns
// views of its results, of the tensors' shapes. The results own their memory.
func together(ts []*locus.Tensor, start func(flat *locus.Tensor) *collective.Pending) (views, results []*locus.Tensor, err error) {
	type bucket struct {
		at      []int
		bytes   int
		flat    *locus.Tensor
		own     bool // flat has memory of its own
		pending *collective.Pending
	}
	var buckets []*bucket
	open := map[locus.DType]*bucket{}
	for i, t := range ts {
		if t.Len() == 0 {
			continue
		}
		b := open[t.DType()]
		if b == nil || b.bytes+t.Bytes() > bucketBytes {
			b = &bucket{}
			open[t.DType()], buckets = b, append(buckets, b)
		}
		b.at, b.bytes = append(b.at, i), b.bytes+t.Bytes()
	}
	locus.NoGrad(func() {
		for _, b := range buckets {
			var parts []*locus.Tensor
			for _, i := range b.at {
				parts = append(parts, ts[i].Detach().Flatten())
			}
			if b.flat = parts[0]; len(parts) > 1 {
				b.flat, b.own = locus.Concat(0, parts...), true
			}
			b.pending = start(b.flat)
		}
	})
	views = slices.Clone(ts) // those without elements
	for _, b := range buckets {
		whole, e := b.pending.Wait()
		if b.own {
			b.flat.Free()
		}
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		results = append(results, whole)
		from := 0
		for _, i := range b.at {
			to := from + ts[i].Len()
			views[i] = whole.Narrow(0, from, to).Reshape(ts[i].Shape()...)
			from = to
		}
	}
	if err != nil {
		freeAll(results)
		return nil, nil, first(err)
	}
	return views, results, nil
}

// first returns the first of joined errors: one broken group fails every bucket alike.
func first(err error) error {
	if l, ok := err.(interface{ Unwrap() []error }); ok && len(l.Unwrap()) > 0 {
		return first(l.Unwrap()[0])
	}
	return err
}

// reduce makes the gradients that wait for the step the sums over all ranks. Each rank's are
// weighted by its part of the batch, so the sums are those of the whole batch. meanwhile is
// called when the sums are on their way; it may be nil.
func (r *run) reduce(meanwhile func() error) error {
	if r.ranks == nil {
		return nil
	}
	var at []int
	for i, g := range r.grads {
		if g != nil {
			at = append(at, i)
		}
	}
	sums := r.sumOverRanks(at, 1)
	for k, i := range at {
		sums.put(k, r.grads[i])
	}
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return err
		}
	}
	views, results, err := sums.wait(1)
	if err != nil {
		return err
	}
	for k, i := range at {
		r.grads[i] = views[k]
	}
	r.reduced = results
	return nil
}

// none returns zeros as the gradients of a part that is empty.
func (r *run) none(trained []int) []*locus.Tensor {
	zeros := make([]*locus.Tensor, len(trained))
	locus.NoGrad(func() {
		for k, i := range trained {
			zeros[k] = r.replicas[0].params[i].Value().Detach().ZerosLike()
		}
	})
	return zeros
}

// shareBuffers copies the buffers of rank 0 to all ranks, such as running statistics, which
// come from its part of each batch.
func (r *run) shareBuffers() error {
	if r.ranks == nil {
		return nil
	}
	var l []named
	for _, e := range r.replicas[0].state {
		if e.Kind == nn.Kept {
			l = append(l, named{e.Name, e.Value(), e.Set})
		}
	}
	return r.ranks.share(l)
}

// named is a tensor that ranks have in common.
type named struct {
	name string
	t    *locus.Tensor
	set  func(*locus.Tensor) // takes a copy of the first rank's
}

// share copies the first rank's values to all ranks.
func (k *ranks) share(l []named) error {
	ts := make([]*locus.Tensor, len(l))
	for i, n := range l {
		ts[i] = n.t
	}
	views, results, err := together(ts, func(flat *locus.Tensor) *collective.Pending { return k.g.Broadcast(k.ctx, flat, 0) })
	if err != nil {
		return err
	}
	if k.rank > 0 {
		locus.NoGrad(func() {
			for i, n := range l {
				n.set(views[i].Copy())
			}
		})
	}
	freeAll(results)
	return nil
}

// common lists the tensors that are equal on all ranks between two steps, by name, and a
// function that puts those of the optimizer and of the averages in place.
func (r *run) common() (l []named, done func() error) {
	for _, e := range r.replicas[0].state {
		l = append(l, named{modelPrefix + e.Name, e.Value(), e.Set})
	}
	given := map[string]map[string]*locus.Tensor{}
	add := func(prefix string, tensors map[string]*locus.Tensor) {
		given[prefix] = map[string]*locus.Tensor{}
		for _, name := range slices.Sorted(maps.Keys(tensors)) {
			l = append(l, named{prefix + name, tensors[name], func(t *locus.Tensor) { given[prefix][name] = t }})
		}
	}
	if !r.sharded() {
		add(optimPrefix, r.opt.State())
	}
	if r.scaler != nil {
		add(scalerPrefix, r.scaler.State())
	}
	if r.average != nil {
		add(avgPrefix, r.average.Tree())
	}
	return l, func() (err error) {
		if m := given[optimPrefix]; len(m) > 0 {
			err = r.opt.SetState(m, r.opt.Steps())
		}
		if m := given[scalerPrefix]; len(m) > 0 {
			err = errors.Join(err, r.scaler.SetState(m))
		}
		if m := given[avgPrefix]; len(m) > 0 {
			err = errors.Join(err, r.average.SetState(m, r.average.Updates()))
			freeAll(slices.Collect(maps.Values(m)))
		}
		return err
	}
}

// begin compares what the ranks are about to train, and sends all of them the first one's
// tensors.
func (r *run) begin() error {
	if r.ranks == nil {
		return nil
	}
	l, done := r.common()
	lines := []string{fmt.Sprintf("a run that begins with batch %d of epoch %d, after %d steps", r.startBatch+1, r.epoch.Number+1, r.opt.Steps()),
		fmt.Sprintf("checkpoints: %v", r.set.save), fmt.Sprintf("a sharded optimizer: %v", r.set.shard)}
	for _, name := range slices.Sorted(maps.Keys(r.report.Hyperparameters)) {
		if !slices.Contains(r.own, name) {
			lines = append(lines, name+" "+show(r.report.Hyperparameters[name]))
		}
	}
	for _, n := range l {
		lines = append(lines, fmt.Sprintf("%s: %s %v", n.name, n.t.DType(), n.t.Shape()))
	}
	for _, name := range slices.Sorted(maps.Keys(nn.Counters(r.replicas[0].model))) {
		lines = append(lines, "the counter "+name)
	}
	for _, e := range r.replicas[0].params {
		if e.Frozen() {
			lines = append(lines, e.Name+" is frozen")
		}
	}
	type beginning struct {
		Lines    []string
		LogEvery int
		Counters map[string]uint64
	}
	all, err := agree.All(r.ranks.ctx, r.ranks.g, beginning{lines, r.set.logEvery, nn.Counters(r.replicas[0].model)})
	if err != nil {
		return err
	}
	r.set.logEvery = all[0].LogEvery // who shows the metrics says when all read them
	want := all[0].Lines
	for rank, b := range all {
		have := b.Lines
		for i := range max(len(want), len(have)) {
			a, b := "nothing", "nothing"
			if i < len(want) {
				a = want[i]
			}
			if i < len(have) {
				b = have[i]
			}
			if a != b {
				r.ranks.settle()
				return &locus.Error{Kind: locus.ErrArgument, Op: "train.Fit", Msg: fmt.Sprintf("ranks differ: rank 0 has %s, rank %d has %s", a, rank, b),
					Fix: "make the same trainer, model and data on all ranks, and let all read the same folder of checkpoints"}
			}
		}
	}
	if err := r.ranks.share(l); err != nil {
		return err
	}
	if r.ranks.rank > 0 {
		if err := done(); err != nil {
			return err
		}
	}
	if r.apart {
		return nil
	}
	for _, p := range r.replicas { // all draw the first rank's masks, each for its examples
		if err := nn.SetCounters(p.model, all[0].Counters); err != nil {
			return err
		}
	}
	return nil
}

// seen is what a rank has measured so far, for each of its devices.
type seen struct {
	Means  []reading
	Counts [][]byte // of Measure
}

// measuredBy returns what all ranks have measured, in their order: the means, and meters of
// Measure.
func (k *ranks) measuredBy(measures []metric.Metric, meters []*meter, counts []*counter) (means []reading, all []*metric.Meter, err error) {
	own := seen{}
	for _, m := range meters {
		own.Means = append(own.Means, m.reading())
	}
	if k == nil {
		return own.Means, metersOf(counts), nil
	}
	for _, c := range counts {
		if c == nil {
			continue
		}
		b, err := encode(c.State())
		if err != nil {
			return nil, nil, err
		}
		own.Counts = append(own.Counts, b)
	}
	ranks, err := agree.All(k.ctx, k.g, own)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range ranks {
		means = append(means, s.Means...)
		for _, b := range s.Counts {
			state, err := decode(b)
			if err != nil {
				return nil, nil, err
			}
			m := metric.NewMeter(measures...)
			err = m.SetState(state)
			freeAll(slices.Collect(maps.Values(state)))
			if err != nil {
				return nil, nil, err
			}
			all = append(all, m)
		}
	}
	return means, all, nil
}

// drop frees meters of other ranks.
func (k *ranks) drop(all []*metric.Meter) {
	if k == nil {
		return // they are the replicas' own
	}
	for _, m := range all {
		m.Reset()
	}
}

// encode writes tensors as bytes; none of them as none.
func encode(ts map[string]*locus.Tensor) ([]byte, error) {
	if len(ts) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	err := weights.Write(&b, ts, nil)
	return b.Bytes(), err
}

// decode reads what encode wrote, on the CPU.
func decode(b []byte) (map[string]*locus.Tensor, error) {
	if len(b) == 0 {
		return nil, nil
	}
	f, err := weights.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.LoadAll(locus.CPU())
}
