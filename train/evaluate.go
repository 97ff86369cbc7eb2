package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/agree"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/guard"
	"github.com/locusml/locus/internal/trace"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train/metric"
)

// PredictionStepper is a model that computes the prediction for a batch itself:
// one tensor with the examples along axis 0. The default is Forward(first field).
type PredictionStepper interface {
	PredictionStep(fields []*locus.Tensor) *locus.Tensor
}

// Validate measures a model on Data.Validation, as Fit does after an epoch: in inference
// mode, in the model's own precision, on all of the trainer's devices. The model is left as
// it is, where it is and in its mode: a copy of it is used, which shares its tensors where
// it can. Several goroutines may use one model this way.
func (t *Trainer) Validate(model Model, d Data) (metric.Result, error) {
	return t.ValidateContext(context.Background(), model, d)
}

// ValidateContext is Validate that ends when ctx does, with its error.
func (t *Trainer) ValidateContext(ctx context.Context, model Model, d Data) (metric.Result, error) {
	return t.evaluate(ctx, model, d, d.Validation, Validating)
}

// Test measures a model on Data.Test, like Validate.
func (t *Trainer) Test(model Model, d Data) (metric.Result, error) {
	return t.TestContext(context.Background(), model, d)
}

// TestContext is Test that ends when ctx does, with its error.
func (t *Trainer) TestContext(ctx context.Context, model Model, d Data) (metric.Result, error) {
	return t.evaluate(ctx, model, d, d.Test, Testing)
}

// Predict applies a network to Data.Predict and returns its results, batch by batch, in the
// order of the data:
//
//	for y, err := range trainer.Predict(model, train.Data{Predict: set, BatchSize: 256}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(y.ArgMax(1))
//		y.Free()
//	}
//
// The predictions are on the trainer's first device and the caller's own. Each
// batch is computed on all of the trainer's devices, and none before the loop asks for it.
// After an error the sequence ends. The network is left as it is; see [Trainer.Validate].
//
// With [Ranks] each batch is divided among them, and every rank gets the predictions for
// all of it. All ranks must call Predict with the same network and data; one that leaves the
// loop early ends it for all, with an error for those that have not left it.
func (t *Trainer) Predict(net nn.Module, d Data) iter.Seq2[*locus.Tensor, error] {
	return t.PredictContext(context.Background(), net, d)
}

// PredictContext is Predict that ends when ctx does, with its error.
func (t *Trainer) PredictContext(ctx context.Context, net nn.Module, d Data) iter.Seq2[*locus.Tensor, error] {
	return func(yield func(*locus.Tensor, error) bool) {
		var p *prediction
		var loader *data.Loader
		devices, err := t.settings().checkOptions()
		if err == nil && gate.IsNil(ctx) {
			err = ended(ctx)
		}
		if err != nil {
			t.settings().abort(err)
			yield(nil, err)
			return
		}
		k := newRanks(ctx, t.settings())
		err = guard.Call(func() (err error) {
			if loader, err = d.loader(d.Predict, Predicting, t.settings().seed, devices, k); err != nil {
				return err
			}
			models, err := copies(net, devices)
			if err == nil {
				p = newPrediction(t.settings(), devices, models, k)
			}
			return err
		})
		if err != nil {
			k.abort(err)
			yield(nil, withStack(err))
			return
		}
		left := errors.New("the loop over its predictions has ended by a panic")
		defer func() { k.abort(left) }() // unless the loop ends well
		for batch, err := range loader.Epoch(0) {
			if err == nil {
				err = k.ended(ctx)
			}
			var y *locus.Tensor
			if err == nil {
				y, err = p.predict(batch)
			} else if batch != nil {
				batch.Free()
			}
			k.abort(err)
			if more := yield(y, withStack(err)); err != nil {
				left = nil
				return
			} else if !more {
				left = nil
				if batch.Index+1 < loader.Len() {
					_, _ = k.agree(stopped) // in place of the question before the next batch
				}
				return
			}
		}
		left = nil
	}
}

// evaluate measures a model on a dataset of Data.
func (t *Trainer) evaluate(ctx context.Context, model Model, d Data, set data.Dataset, stage Stage) (scores metric.Result, err error) {
	devices, err := t.settings().checkOptions()
	if err == nil {
		err = t.settings().checkMeasures(model)
	}
	if err == nil && gate.IsNil(ctx) {
		err = ended(ctx)
	}
	if err != nil {
		t.settings().abort(err)
		return scores, err
	}
	k := newRanks(ctx, t.settings())
	err = guard.Call(func() error {
		loader, err := d.loader(set, stage, t.settings().seed, devices, k)
		if err != nil {
			return err
		}
		models, err := copies(model, devices)
		if err != nil {
			return err
		}
		e := newEvaluation(t.settings(), new(reason), stage, devices, models, k)
		defer e.close()
		scores, err = e.measure(ctx, loader)
		return err
	})
	k.abort(err)
	return scores, withStack(err)
}

// loader makes the loader of a dataset that is measured, and refuses nil.
func (d Data) loader(set data.Dataset, stage Stage, seed uint64, devices []locus.Device, k *ranks) (*data.Loader, error) {
	if gate.IsNil(set) {
		field := map[Stage]string{Validating: "Validation", Testing: "Test", Predicting: "Predict"}[stage]
		return nil, bad("Data.%s is nil: there is nothing to look at", field)
	}
	return d.inOrder(set, seed, devices, k)
}

// inOrder makes the loader of a dataset that is not trained on: all examples, in
// order, on the devices ahead of the computation.
func (d Data) inOrder(set data.Dataset, seed uint64, devices []locus.Device, k *ranks) (*data.Loader, error) {
	o := data.Options{BatchSize: min(d.BatchSize, max(1, set.Len())), Workers: d.Workers, Key: locus.NewKey(seed)}
	o.Rank, o.Ranks = k.of()
	if len(devices) == 1 {
		o.Device = devices[0]
	} else {
		o.Devices = devices
	}
	return data.NewLoader(set, o)
}

// copies makes a network for every device that computes as m does in inference. They
// share m's tensors where these are on the device.
func copies[M nn.Module](m M, devices []locus.Device) ([]M, error) {
	if gate.IsNil(m) {
		return nil, bad("the model is nil")
	}
	var lazy []string
	for _, e := range nn.State(m) {
		if e.Value() == nil {
			lazy = append(lazy, e.Name)
		}
	}
	if len(lazy) > 0 {
		return nil, bad("%s have no value yet: fit the model, load its weights, or run Forward once", strings.Join(lazy, ", "))
	}
	tree := nn.TreeOf(m)
	models := make([]M, len(devices))
	for i, d := range devices {
		models[i] = bound(m, tree, d)
	}
	return models, nil
}

// bound returns a copy of a network that computes as m does in inference, with the
// tensors of a tree, on a device.
func bound[M nn.Module](m M, tree nn.Tree, d locus.Device) M {
	return nn.Eval(nn.Bind(m, tree.Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.To(d) })))
}

// evaluation measures models, one per device, which are equal. It may be used again and
// again: what is compiled, is once.
type evaluation struct {
	set     *settings
	stage   Stage
	devices []locus.Device
	models  []Model
	meters  []*meter
	counts  []*counter
	sizes   []int // of the parts of the batch that is measured
	steps   []*compiled
	ranks   *ranks // that share the data; nil without
}

func newEvaluation(set *settings, why *reason, stage Stage, devices []locus.Device, models []Model, k *ranks) *evaluation {
	e := &evaluation{ranks: k, set: set, stage: stage, devices: devices, models: models, sizes: make([]int, len(models))}
	for i, m := range models {
		e.meters, e.counts = append(e.meters, newMeter()), append(e.counts, newCounter(set.measures))
		e.steps = append(e.steps, set.compile(why, m, func(args ...*locus.Tensor) (out []*locus.Tensor) {
			trace.Watch(&e.sizes[i], "the number of examples of a batch", func() any { return e.sizes[i] })
			scoped(args, func(sc *locus.Scope, fields []*locus.Tensor) {
				defer watch(m)()
				metrics, seen := validationStep(m, fields, e.counts[i].meter())
				e.meters[i].addAll(metrics, e.sizes[i])
				out = e.counts[i].inside(sc, seen)
			})
			return out
		}))
	}
	return e
}

// scoped calls f, without gradients, with tensors in a scope that is closed afterwards.
func scoped(args []*locus.Tensor, f func(sc *locus.Scope, args []*locus.Tensor)) {
	locus.NoGrad(func() {
		locus.Scoped(func(sc *locus.Scope) {
			used := make([]*locus.Tensor, len(args))
			for i, a := range args {
				used[i] = sc.Use(a)
			}
			f(sc, used)
		})
	})
}

// measure returns the metrics over the examples of a loader. Each batch is split over
// the devices.
func (e *evaluation) measure(ctx context.Context, loader *data.Loader) (metric.Result, error) {
	for i, m := range e.meters {
		m.restart()
		if e.counts[i] != nil {
			e.counts[i].Reset()
		}
	}
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			return metric.Result{}, err
		}
		err := e.ranks.ended(ctx)
		if err == nil {
			err = eachPart(e.set, e.stage, batch, e.devices, func(i int, fields []*locus.Tensor, size int) {
				e.sizes[i] = size
				e.counts[i].after(e.steps[i].call(fields...))
			})
		}
		batch.Free()
		if err != nil {
			return metric.Result{}, err
		}
	}
	var scores metric.Result
	err := guard.Call(func() error {
		readings, counted, err := e.ranks.measuredBy(e.set.measures, e.meters, e.counts)
		if err != nil {
			return err
		}
		defer e.ranks.drop(counted)
		if len(e.set.measures) > 0 {
			scores = metric.Read(counted...)
		} else {
			scores.Values = map[string]float64{}
		}
		maps.Copy(scores.Values, merge(readings))
		return nil
	})
	return scores, err
}

// close releases what the evaluation held.
func (e *evaluation) close() {
	for i, m := range e.meters {
		m.reset()
		if e.counts[i] != nil {
			e.counts[i].Reset()
		}
	}
}

// ended is the error of a context that has.
func ended(ctx context.Context) error {
	if gate.IsNil(ctx) {
		return bad("the context is nil; use context.Background()")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("train: interrupted: %w", err)
	}
	return nil
}

// errLeft is the error of a loop that another rank has left.
var errLeft = &locus.Error{Kind: locus.ErrArgument, Op: "train.Predict", Msg: "another rank has left its loop over the predictions before the last batch",
	Fix: "let all ranks loop over the same batches"}

// ended is the error of a context that has, on any rank.
func (k *ranks) ended(ctx context.Context) error {
	if k == nil {
		return ended(ctx)
	}
	own := goesOn
	if ctx.Err() != nil {
		own = interrupted
	}
	how, err := k.agree(own)
	switch {
	case err != nil || how == goesOn:
		return err
	case how == stopped:
		k.settle()
		return errLeft
	}
	k.settle()
	return fmt.Errorf("train: interrupted: %w", why(ctx))
}

// eachPart calls f, on every device at the same time, with its part of a batch, in
// a scope that is closed afterwards and without gradients.
func eachPart(set *settings, stage Stage, batch *data.Batch, devices []locus.Device, f func(i int, fields []*locus.Tensor, size int)) error {
	parts := split(batch, len(devices))
	return each(len(parts), func(i int) (err error) {
		if parts[i].size == 0 {
			return nil
		}
		s := locus.NewScope()
		defer s.Close()
		locus.NoGrad(func() {
			var fields []*locus.Tensor
			if fields, err = set.prepare(s, devices[i], Batch{Stage: stage, Index: batch.Index, First: batch.First + parts[i].first, Size: parts[i].size, Whole: batch.Whole, Fields: parts[i].fields}); err == nil {
				f(i, fields, parts[i].size)
			}
		})
		return err
	})
}

// prediction applies networks, one per device, which are equal.
type prediction struct {
	set     *settings
	devices []locus.Device
	sizes   []int // of the parts of the batch that is computed
	steps   []*compiled
	ranks   *ranks // that share the data; nil without
}

func newPrediction(set *settings, devices []locus.Device, models []nn.Module, k *ranks) *prediction {
	p := &prediction{ranks: k, set: set, devices: devices, sizes: make([]int, len(models))}
	for i, m := range models {
		p.steps = append(p.steps, set.compile(new(reason), m, func(args ...*locus.Tensor) (out []*locus.Tensor) {
			trace.Watch(&p.sizes[i], "the number of examples of a batch", func() any { return p.sizes[i] })
			scoped(args, func(sc *locus.Scope, fields []*locus.Tensor) {
				defer watch(m)()
				y := predictionStep(m, fields)
				if y.Rank() == 0 || y.Dim(0) != p.sizes[i] {
					panic(&locus.Error{Kind: locus.ErrShape, Op: "train.Predict", Msg: fmt.Sprintf("the prediction for %d examples has shape %v", p.sizes[i], y.Shape()),
						Fix: "return one tensor with the examples along axis 0"})
				}
				// A network may return its input, or a view of it, which ends with the batch.
				out = []*locus.Tensor{sc.Keep(y.Detach().Copy())}
			})
			return out
		}))
	}
	return p
}

// predict computes a batch, which it frees. The result is on the first device, in no
// scope.
func (p *prediction) predict(batch *data.Batch) (y *locus.Tensor, err error) {
	defer batch.Free()
	parts := make([]*locus.Tensor, len(p.steps))
	defer freeAll(parts)
	err = eachPart(p.set, Predicting, batch, p.devices, func(i int, fields []*locus.Tensor, size int) {
		p.sizes[i] = size
		parts[i] = p.steps[i].call(fields...)[0]
	})
	if err != nil {
		return nil, err
	}
	err = guard.Call(func() (err error) {
		defer func() {
			if err == nil {
				y, err = p.ranks.joined(y, batch.Whole, p.devices[0])
			}
		}()
		if len(parts) == 1 || batch.Size == 0 {
			y, parts[0] = parts[0], nil
			return nil
		}
		locus.NoGrad(func() {
			locus.Scoped(func(s *locus.Scope) {
				var all []*locus.Tensor
				for _, t := range parts {
					if t != nil {
						all = append(all, s.Use(t).To(p.devices[0]))
					}
				}
				y = s.Keep(locus.Concat(0, all...))
			})
		})
		return nil
	})
	return y, err
}

// joined puts the ranks' predictions for a batch of so many examples together, in order, and
// frees its own; a rank whose part is empty has none.
func (k *ranks) joined(y *locus.Tensor, whole int, d locus.Device) (*locus.Tensor, error) {
	if k == nil {
		return y, nil
	}
	if whole < k.size { // known to all: some do not know what a prediction looks like
		type look struct {
			Shape []int
			DType locus.DType
		}
		own := look{}
		if y != nil {
			own = look{y.Shape(), y.DType()}
		}
		all, err := agree.All(k.ctx, k.g, own)
		if err != nil {
			return nil, err
		}
		if y == nil {
			y = d.As(all[0].DType).Zeros(append([]int{0}, all[0].Shape[1:]...)...)
		}
	}
	defer y.Free()
	return k.g.AllGatherParts(k.ctx, y, whole).Wait()
}

// predictionStep computes a batch's prediction.
func predictionStep(m nn.Module, fields []*locus.Tensor) *locus.Tensor {
	var y *locus.Tensor
	if s, ok := m.(PredictionStepper); ok {
		y = s.PredictionStep(fields)
	} else {
		y = m.Forward(fields[0])
	}
	if y == nil {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "train.Predict", Msg: "the prediction is nil", Fix: "return a tensor from Forward or PredictionStep"})
	}
	return y
}
