package train

import (
	"fmt"
	"maps"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train/metric"
)

// Model is what a [Trainer] trains: a network and its loss. The interfaces below
// are hooks; a model that lacks one gets the default.
type Model interface {
	nn.Module
	// Loss returns the mean loss over a batch, one element.
	Loss(output, target *locus.Tensor) *locus.Tensor
}

// TrainingStepper is a model that computes the loss of a batch itself. The default
// is Loss(Forward(first field), last field).
type TrainingStepper interface {
	TrainingStep(fields []*locus.Tensor) *locus.Tensor
}

// ValidationStepper is a model that computes the validation metrics of a batch
// itself, each a mean over the batch on the batch's device. The default is "loss", and
// what [Metrics] returns.
type ValidationStepper interface {
	ValidationStep(fields []*locus.Tensor) map[string]*locus.Tensor
}

// Metrics is a model that measures more than its loss: means over the batch, on
// the batch's device.
type Metrics interface {
	Metrics(output, target *locus.Tensor) map[string]*locus.Tensor
}

// OptimizerConfigurer is a model that chooses its optimizer. The default is SGD
// with the trainer's learning rate.
type OptimizerConfigurer interface {
	ConfigureOptimizer(params []nn.Entry) *optim.Optimizer
}

// Supervised is a model made of a network, a loss and metrics.
type Supervised struct {
	Net nn.Module

	LossFunc    func(output, target *locus.Tensor) *locus.Tensor
	MetricsFunc func(output, target *locus.Tensor) map[string]*locus.Tensor // may be nil
	Optimizer   func(params []nn.Entry) *optim.Optimizer                    // nil: SGD
}

// Classifier makes a model of a network that returns one score per class: its loss is
// cross-entropy, and it measures accuracy.
func Classifier(net nn.Module) *Supervised {
	return &Supervised{Net: net,
		LossFunc: func(output, target *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(output, target, locus.CrossEntropyOptions{})
		},
		MetricsFunc: func(output, target *locus.Tensor) map[string]*locus.Tensor {
			return map[string]*locus.Tensor{"accuracy": Accuracy(output, target)}
		}}
}

// Regressor makes a model of a network that returns numbers: its loss is half the
// mean squared error.
func Regressor(net nn.Module) *Supervised {
	return &Supervised{Net: net, LossFunc: func(output, target *locus.Tensor) *locus.Tensor {
		return locus.MSELoss(output, target, locus.ReduceMean).Mul(0.5)
	}}
}

// Accuracy returns the fraction of rows whose largest score is at the target's position.
func Accuracy(output, target *locus.Tensor) *locus.Tensor {
	return output.Detach().ArgMax(1).Eq(target.Cast(locus.Int64)).Cast(locus.Float32).Mean()
}

// Forward applies the network.
func (m *Supervised) Forward(x *locus.Tensor) *locus.Tensor {
	m.check(m != nil && m.Net != nil, "Net", "a network")
	return m.Net.Forward(x)
}

// check refuses a model that lacks what it is made of.
func (m *Supervised) check(ok bool, field, want string) {
	if !ok {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "train.Supervised", Msg: "the model is nil, or its field " + field + " is", Fix: "give it " + want + ", or use train.Classifier or train.Regressor"})
	}
}

// Loss applies the loss.
func (m *Supervised) Loss(output, target *locus.Tensor) *locus.Tensor {
	m.check(m != nil && m.LossFunc != nil, "LossFunc", "a loss")
	return m.LossFunc(output, target)
}

// Metrics returns the metrics of a batch.
func (m *Supervised) Metrics(output, target *locus.Tensor) map[string]*locus.Tensor {
	if m == nil || m.MetricsFunc == nil {
		return nil
	}
	return m.MetricsFunc(output, target)
}

// ConfigureOptimizer makes the optimizer, nil for the default.
func (m *Supervised) ConfigureOptimizer(params []nn.Entry) *optim.Optimizer {
	if m == nil || m.Optimizer == nil {
		return nil
	}
	return m.Optimizer(params)
}

// trainingStep computes the loss of a batch, and metrics where they come for free. seen
// is what metrics of [Measure] look at, output and target; nil of models that keep it to
// themselves.
func trainingStep(m Model, fields []*locus.Tensor, count *metric.Meter) (loss *locus.Tensor, metrics map[string]*locus.Tensor, seen []*locus.Tensor) {
	if s, ok := m.(TrainingStepper); ok {
		return s.TrainingStep(fields), nil, nil
	}
	y := output(m, fields)
	target := full(fields[len(fields)-1])
	loss = m.Loss(y, target)
	locus.NoGrad(func() { metrics = measure(m, y.Detach(), target, count) })
	return loss, metrics, []*locus.Tensor{y.Detach(), target}
}

// output applies the model to a batch.
func output(m Model, fields []*locus.Tensor) *locus.Tensor {
	y := m.Forward(fields[0])
	if y == nil {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: "the model's Forward returned nil"})
	}
	return full(y)
}

// measure returns the model's own metrics, which must have other names than those of
// [Measure], if there are any. The loss is the trainer's.
func measure(m Model, y, target *locus.Tensor, count *metric.Meter) map[string]*locus.Tensor {
	s, ok := m.(Metrics)
	if !ok {
		return nil
	}
	metrics := s.Metrics(y, target)
	if _, ok := metrics["loss"]; ok {
		panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: "Metrics returned a metric called \"loss\", which the trainer measures itself", Fix: "give it another name"})
	}
	if count != nil {
		for _, name := range count.Names() {
			if _, ok := metrics[name]; ok {
				panic(&locus.Error{Kind: locus.ErrArgument, Op: "train", Msg: fmt.Sprintf("the model measures %q itself, and Measure has a metric of that name", name),
					Fix: "measure it once, or rename one: metric.As(\"exact_\", m)"})
			}
		}
	}
	return metrics
}

// validationStep measures a batch; seen is as in trainingStep.
func validationStep(m Model, fields []*locus.Tensor, count *metric.Meter) (metrics map[string]*locus.Tensor, seen []*locus.Tensor) {
	if s, ok := m.(ValidationStepper); ok {
		return s.ValidationStep(fields), nil
	}
	y, target := output(m, fields), full(fields[len(fields)-1])
	metrics = map[string]*locus.Tensor{"loss": m.Loss(y, target)}
	maps.Copy(metrics, measure(m, y, target, count))
	return metrics, []*locus.Tensor{y, target}
}

// full returns an output or a target in at least float32, in which losses are
// computed.
func full(y *locus.Tensor) *locus.Tensor {
	if y.DType().IsHalf() {
		return y.Cast(locus.Float32)
	}
	return y
}
