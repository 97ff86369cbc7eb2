package data

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/guard"
)

// Options says how a [Loader] makes batches.
type Options struct {
	BatchSize int  // examples per batch
	Shuffle   bool // another order each epoch, from Key
	DropLast  bool // leave out a last batch that is smaller than the others

	// Key is the source of everything random: the order, and what datasets draw, such as
	// augmentations.
	Key locus.Key

	// Device is where batches are put: those made on the CPU are copied there
	// ahead of time, to a GPU by way of page-locked memory, so that the copy overlaps with
	// its other work. Those of a dataset that lives on a GPU stay there.
	Device locus.Device

	// Pin puts batches that stay on the CPU into page-locked memory ahead of time, for a
	// loop that copies parts of them to several GPUs itself.
	Pin bool

	// Devices share every batch, if there are any: the loader cuts it into one part for
	// each, and puts that there ahead of the loop, which finds them in Batch.Parts. Then
	// Device and Pin have no effect.
	Devices []locus.Device

	// Workers is the number of goroutines that make batches; 0 means one. The batches and
	// their order do not depend on it.
	Workers int

	// Prefetch is the number of batches that are made, and put on the device,
	// ahead of the loop; 0 means two. With more workers it is their number.
	Prefetch int

	// Ranks is the number of programs that share every batch, and Rank the number of this
	// one, from 0; 0 ranks means one. BatchSize is that of the whole batch. The loader
	// makes and reads only its rank's part of each batch: parts are consecutive, their
	// sizes differ by at most one, and the first ranks have the larger ones. So batches
	// and their order do not depend on the number of ranks, all ranks have as many, and
	// every example is in one part. A part of a batch with fewer examples than ranks may
	// be empty: its Size is 0 and it has no fields. The key that a dataset gets is one for
	// the part (see locus.Key.Part), so that examples get the same crops and flips
	// whatever the number of ranks.
	Rank, Ranks int
}

// Loader returns a dataset's examples in batches, epoch by epoch. It holds no
// position: any number of loops may run at the same time.
type Loader struct {
	data Dataset
	opt  Options
}

// Batch is a batch of examples.
type Batch struct {
	Fields []*locus.Tensor // the caller's own
	Size   int             // examples
	Whole  int             // examples of the batch over all ranks; Size without Options.Ranks
	First  int             // how many of them are in the parts of earlier ranks
	Parts  []Part          // with Options.Devices, one for each, and Fields is nil
	Epoch  int
	Index  int // position in the epoch: [Loader.EpochFrom] goes on behind it with Index+1

	whole []*locus.Tensor // what parts on the CPU are views of
}

// Part is one device's share of a batch: parts are consecutive, their sizes differ by at most
// one, and the first devices have the larger ones.
type Part struct {
	Fields []*locus.Tensor // on the device, as long as the batch is not freed; none if the part is empty
	First  int             // examples of the batch in parts before it
	Size   int             // examples
}

// X is the first field: the input.
func (b *Batch) X() *locus.Tensor {
	gate.Receiver("data.Batch.X", b != nil && len(b.Fields) > 0, "a loader makes batches")
	return b.Fields[0]
}

// Y is the last field: the target.
func (b *Batch) Y() *locus.Tensor {
	gate.Receiver("data.Batch.Y", b != nil && len(b.Fields) > 0, "a loader makes batches")
	return b.Fields[len(b.Fields)-1]
}

// Free frees the memory of the batch at once.
func (b *Batch) Free() {
	gate.Receiver("data.Batch.Free", b != nil, "a loader makes batches")
	free(b.Fields)
	free(b.whole)
	for _, p := range b.Parts {
		free(p.Fields)
	}
}

func free(ts []*locus.Tensor) {
	for _, t := range ts {
		if t != nil {
			t.Free()
		}
	}
}

// NewLoader makes a loader of d's examples.
func NewLoader(d Dataset, opt Options) (*Loader, error) {
	n, err := length(d)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fmt.Errorf("data: the dataset is empty: %w", locus.ErrArgument)
	case opt.BatchSize < 1:
		return nil, fmt.Errorf("data: a batch size of %d; set Options.BatchSize: %w", opt.BatchSize, locus.ErrArgument)
	case opt.BatchSize > n:
		return nil, fmt.Errorf("data: batches of %d from %d examples; use at most %d: %w", opt.BatchSize, n, n, locus.ErrArgument)
	case opt.checkCounts() != nil:
		return nil, fmt.Errorf("data: %w", opt.checkCounts())
	case slices.ContainsFunc(opt.Devices, func(d locus.Device) bool { return !d.Exists() }):
		i := slices.IndexFunc(opt.Devices, func(d locus.Device) bool { return !d.Exists() })
		return nil, locus.Try(func() { locus.CPU().Zeros(1).To(opt.Devices[i]) })
	case !opt.Device.Exists():
		// To says what there is.
		return nil, locus.Try(func() { locus.CPU().Zeros(1).To(opt.Device) })
	}
	if opt.Workers == 0 {
		opt.Workers = 1
	}
	if opt.Prefetch == 0 {
		opt.Prefetch = 2
	}
	opt.Prefetch = max(opt.Prefetch, opt.Workers)
	opt.Devices = slices.Clone(opt.Devices)
	return &Loader{d, opt}, nil
}

// checkCounts refuses more goroutines and batches ahead than any machine has room for.
func (opt Options) checkCounts() error {
	return cmp.Or(gate.Count("the number of workers (Options.Workers)", opt.Workers, 0, gate.MaxWorkers),
		gate.Count("the number of batches ahead (Options.Prefetch)", opt.Prefetch, 0, gate.MaxWorkers),
		gate.Count("the number of ranks (Options.Ranks)", opt.Ranks, 0, gate.MaxWorkers),
		gate.Count("the rank (Options.Rank)", opt.Rank, 0, max(opt.Ranks-1, 0)))
}

// Dataset is what the loader reads.
func (l *Loader) Dataset() Dataset {
	gate.Receiver("data.Loader.Dataset", l != nil && l.data != nil, "make it with data.NewLoader")
	return l.data
}

// Options returns the options, with defaults filled in.
func (l *Loader) Options() Options {
	gate.Receiver("data.Loader.Options", l != nil && l.data != nil, "make it with data.NewLoader")
	return l.opt
}

// With returns a loader of the same dataset with changed options.
func (l *Loader) With(change func(*Options)) (*Loader, error) {
	gate.Receiver("data.Loader.With", l != nil && l.data != nil, "make it with data.NewLoader")
	if err := gate.Given("the change", change); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	opt := l.opt
	change(&opt)
	return NewLoader(l.data, opt)
}

// Len is the number of batches of an epoch.
func (l *Loader) Len() int {
	gate.Receiver("data.Loader.Len", l != nil && l.data != nil, "make it with data.NewLoader")
	n := l.data.Len()
	if l.opt.DropLast {
		return n / l.opt.BatchSize
	}
	return (n + l.opt.BatchSize - 1) / l.opt.BatchSize
}

// Order returns the positions of the examples in the order of an epoch.
func (l *Loader) Order(epoch int) []int {
	gate.Receiver("data.Loader.Order", l != nil && l.data != nil, "make it with data.NewLoader")
	n := l.data.Len()
	if l.opt.Shuffle {
		return permutation(l.epochKey(epoch).Fold(0), n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

func (l *Loader) epochKey(epoch int) locus.Key { return l.opt.Key.Fold(uint64(epoch)) }

// Epoch returns the batches of an epoch in order. After an error the sequence ends.
// Goroutines that work ahead have ended when the loop has, also after a break.
func (l *Loader) Epoch(epoch int) iter.Seq2[*Batch, error] {
	gate.Receiver("data.Loader.Epoch", l != nil && l.data != nil, "make it with data.NewLoader")
	return l.EpochFrom(epoch, 0)
}

// EpochFrom returns the rest of an epoch, from the batch at position start on, for a run
// that goes on after an interruption.
func (l *Loader) EpochFrom(epoch, start int) iter.Seq2[*Batch, error] {
	gate.Receiver("data.Loader.EpochFrom", l != nil && l.data != nil, "make it with data.NewLoader")
	return func(yield func(*Batch, error) bool) {
		if epoch < 0 || start < 0 || start > l.Len() {
			yield(nil, fmt.Errorf("data: there is no batch %d of %d in epoch %d: %w", start, l.Len(), epoch, locus.ErrIndex))
			return
		}
		key := l.epochKey(epoch)
		d := forEpoch(l.data, key.Fold(2))
		if d.Len() != l.data.Len() {
			yield(nil, fmt.Errorf("data: the dataset has %d examples, but %d in epoch %d: %w", l.data.Len(), d.Len(), epoch, locus.ErrArgument))
			return
		}
		r := &run{loader: l, data: d, epoch: epoch, key: key.Fold(1), order: l.Order(epoch)}
		r.start(start)
		defer r.stop()
		for done := range r.queue {
			res := <-done
			if !yield(res.batch, res.err) || res.err != nil {
				return
			}
		}
	}
}

// run is one loop over an epoch.
type run struct {
	loader *Loader
	data   Dataset
	epoch  int
	key    locus.Key
	order  []int

	queue chan chan result // one per batch, in order
	quit  chan struct{}
	wg    sync.WaitGroup
}

type result struct {
	batch *Batch
	err   error
}

type job struct {
	index int
	done  chan result
}

// start hands batches out to the workers. The queue's room is what bounds how
// far they run ahead.
func (r *run) start(first int) {
	opt := &r.loader.opt
	r.queue = make(chan chan result, opt.Prefetch)
	r.quit = make(chan struct{})
	jobs := make(chan job)
	r.wg.Go(func() {
		defer close(jobs)
		defer close(r.queue)
		for i := first; i < r.loader.Len(); i++ {
			done := make(chan result, 1)
			select {
			case r.queue <- done:
			case <-r.quit:
				return
			}
			select {
			case jobs <- job{i, done}:
			case <-r.quit:
				return
			}
		}
	})
	for range min(opt.Workers, r.loader.Len()-first) {
		r.wg.Go(func() {
			for j := range jobs {
				r.work(j)
			}
		})
	}
}

// stop ends the workers and frees the batches that no loop will ask for.
func (r *run) stop() {
	close(r.quit)
	r.wg.Wait()
	for done := range r.queue {
		select {
		case res := <-done:
			if res.batch != nil {
				res.batch.Free()
			}
		default:
		}
	}
}

// work makes one batch. Whatever the dataset does, a panic included, whoever runs
// the loop gets an answer.
func (r *run) work(j job) {
	var batch *Batch
	guard.Go(func() (err error) {
		batch, err = r.make(j.index)
		return err
	}, func(err error) {
		if err != nil {
			err = fmt.Errorf("data: batch %d of epoch %d: %w", j.index, r.epoch, err)
		}
		j.done <- result{batch, err}
	})
}

func (r *run) make(index int) (*Batch, error) {
	size := r.loader.opt.BatchSize
	at := r.order[index*size : min((index+1)*size, len(r.order))]
	whole, first := len(at), 0
	key := r.key.Fold(uint64(index))
	if rank := r.loader.opt.Rank; r.loader.opt.Ranks > 1 {
		parts := engine.Even(whole, r.loader.opt.Ranks)
		first = parts[rank]
		if at = at[first:parts[rank+1]]; len(at) == 0 {
			return &Batch{Whole: whole, First: first, Epoch: r.epoch, Index: index}, nil
		}
		key = key.Part(first, len(at))
	}
	fields, err := r.data.Batch(slices.Clone(at), key)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("the dataset returned no tensors: %w", locus.ErrArgument)
	}
	device := r.loader.opt.Device
	for i, t := range fields {
		if t == nil {
			return nil, fmt.Errorf("the dataset returned a nil tensor as field %d: %w", i, locus.ErrArgument)
		}
		if r.loader.opt.Devices != nil {
			continue
		}
		if t.Device() == device || t.Device() != locus.CPU() && device == locus.CPU() {
			if r.loader.opt.Pin && t.Device() == locus.CPU() {
				fields[i] = pin(t)
			}
			continue
		}
		if t.Device() != locus.CPU() {
			return nil, fmt.Errorf("the dataset is on %s, the loader's device is %s: %w", t.Device(), device, locus.ErrDevice)
		}
		fields[i] = send(t, device)
	}
	b := &Batch{Fields: fields, Size: len(at), Whole: whole, First: first, Epoch: r.epoch, Index: index}
	if r.loader.opt.Devices != nil {
		if err := b.share(r.loader.opt.Devices); err != nil {
			b.Free()
			return nil, err
		}
	}
	return b, nil
}

// share cuts a batch into parts and puts each on its device.
func (b *Batch) share(devices []locus.Device) error {
	fields := b.Fields
	b.Fields, b.whole = nil, fields
	ends := engine.Even(b.Size, len(devices))
	b.Parts = make([]Part, len(devices))
	for i, d := range devices {
		p := &b.Parts[i]
		if p.First, p.Size = ends[i], ends[i+1]-ends[i]; p.Size == 0 {
			continue
		}
		for k, f := range fields {
			if f.Rank() == 0 || f.Dim(0) != b.Size {
				return fmt.Errorf("field %d has shape %v, and cannot be divided: the batch has %d examples: %w", k, f.Shape(), b.Size, locus.ErrShape)
			}
			if d.IsGPU() && f.Device() == locus.CPU() {
				f = pin(f)
				fields[k] = f
			}
			p.Fields = append(p.Fields, f.Narrow(0, p.First, p.First+p.Size).To(d))
		}
	}
	for k, f := range fields {
		if !slices.Contains(devices, f.Device()) {
			f.Free() // its memory stays until the copies are done
			fields[k] = nil
		}
	}
	return nil
}

// pinFrom is the size from which a field is worth a detour through page-locked
// memory: from there the device fetches it by itself, while it does other work.
const pinFrom = 256 << 10

// pin puts t, which is the loader's own, into page-locked memory if that is worth it.
func pin(t *locus.Tensor) *locus.Tensor {
	if t.Bytes() < pinFrom {
		return t
	}
	p := t.Pin()
	if p != t {
		t.Free()
	}
	return p
}

// send puts t, which is the loader's own, on its way from the CPU to a device.
func send(t *locus.Tensor, device locus.Device) *locus.Tensor {
	t = pin(t)
	x := t.To(device)
	t.Free() // its memory stays until the copy is done
	return x
}
