package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights/checkpoint"
)

// Hyperparameters are the settings of a run, by name: of the trainer
// ("trainer.accumulate"), the data ("data.batch_size"), the optimizer
// ("optimizer.lr"), the model ("model.…", see [Described]) and what [Record] adds.
// Values are what JSON has: numbers, texts, bools, lists of them.
type Hyperparameters map[string]any

// Described is a model, a network or a dataset that reports its own
// hyperparameters. Names get "model." or "data." in front.
type Described interface {
	Hyperparameters() Hyperparameters
}

// String lists them by name, one per line.
func (h Hyperparameters) String() string {
	width := 0
	for name := range h {
		width = max(width, len(name))
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, "%-*s  %s\n", width, name, show(h[name]))
	}
	return b.String()
}

// Record adds hyperparameters to those that the trainer knows: they are saved with
// every checkpoint, and a run that goes on must have the same.
func Record(h Hyperparameters) Option {
	h = maps.Clone(h)
	return Option{func(s *settings) {
		if s.record == nil {
			s.record = Hyperparameters{}
		}
		maps.Copy(s.record, h)
	}}
}

// AcceptChanges lets a run go on from a checkpoint although hyperparameters of
// these names have changed. In the middle of an epoch that has other batches now,
// it goes on at the epoch's beginning.
func AcceptChanges(names ...string) Option {
	return Option{func(s *settings) { s.accept = append(s.accept, names...) }}
}

// SavedHyperparameters returns those of the last checkpoint in a folder.
func SavedHyperparameters(folder string) (Hyperparameters, error) {
	if _, err := os.Stat(folder); err != nil { // Open would make it
		return nil, fmt.Errorf("train: %w", err)
	}
	dir, err := checkpoint.Open(folder, 0)
	if err != nil {
		return nil, err
	}
	c, err := dir.Latest()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var s saved
	if err := c.State(&s); err != nil {
		return nil, err
	}
	if s.Hyper == nil {
		return nil, fmt.Errorf("train: the checkpoint in %s is of an earlier version, which did not save hyperparameters: %w", folder, errors.ErrUnsupported)
	}
	return s.Hyper, nil
}

// ErrChanged is the kind of a [ChangedError].
var ErrChanged = errors.New("train: other hyperparameters than in the checkpoint")

// ChangedError is the error of a run that goes on with other hyperparameters than
// it began with.
type ChangedError struct {
	Folder  string // of the checkpoint
	Changes []Change
}

// Change is a hyperparameter with two values; nil where it is not given.
type Change struct {
	Name    string
	Was, Is any
}

// String returns "optimizer.lr was 0.1, is 0.2".
func (c Change) String() string {
	return fmt.Sprintf("%s was %s, is %s", c.Name, show(c.Was), show(c.Is))
}

// Error lists the changes, and says how to accept them.
func (e *ChangedError) Error() string {
	if e == nil {
		return ErrChanged.Error()
	}
	var lines, names []string
	for _, c := range e.Changes {
		lines, names = append(lines, c.String()), append(names, fmt.Sprintf("%q", c.Name))
	}
	return fmt.Sprintf("%v in %s:\n  %s\n  fix: make the run as it was, or accept the changes: train.AcceptChanges(%s)",
		ErrChanged, e.Folder, strings.Join(lines, "\n  "), strings.Join(names, ", "))
}

// Is reports whether target is [ErrChanged] or locus.ErrArgument.
func (e *ChangedError) Is(target error) bool {
	return target == ErrChanged || target == locus.ErrArgument
}

// describe collects a run's hyperparameters.
func (r *run) describe() Hyperparameters {
	s := r.set
	h := Hyperparameters{
		"trainer.max_epochs": s.maxEpochs, "trainer.seed": s.seed, "trainer.devices": len(r.devices), "trainer.accumulate": s.accumulate,
		"trainer.clip_gradients": s.clip, "trainer.precision": "", "trainer.early_stopping": s.patience, "trainer.monitor": s.monitor,
		"trainer.measures": []string{}, "trainer.keep_best": s.keepBest,
		"data.batch_size": r.data.BatchSize, "data.drop_last": r.data.DropLast, "data.in_order": r.data.InOrder,
		"data.examples": r.data.Train.Len(), "data.validation_examples": 0,
		"optimizer": r.opt.Name(), "optimizer.lr": r.baseLR, "model.parameters": r.report.Parameters,
	}
	h["trainer.plateau"], h["trainer.average_weights"] = false, false
	if s.plateau != nil {
		h["trainer.plateau"] = *s.plateau
	}
	if s.averaged {
		h["trainer.average_weights"] = s.average
	}
	if r.ranks != nil {
		h["trainer.ranks"] = r.ranks.size
	}
	if s.syncNorm {
		h["trainer.sync_batch_norm"] = true
	}
	if s.lowered {
		h["trainer.precision"] = s.precision.String()
	}
	if r.data.Validation != nil {
		h["data.validation_examples"] = r.data.Validation.Len()
	}
	names := []string{}
	for _, m := range s.measures {
		names = append(names, m.Names()...)
	}
	h["trainer.measures"] = names
	h["optimizer.groups"] = []string{}
	for name, v := range r.opt.Options() {
		h["optimizer."+snake(name)] = v
	}
	own := Hyperparameters{}
	for _, of := range []struct {
		prefix string
		v      any
	}{{"model.", network(r.model)}, {"model.", r.model}, {"data.", r.data.Train}} {
		if d, ok := of.v.(Described); ok {
			for name, v := range d.Hyperparameters() {
				own[of.prefix+name] = v
			}
		}
	}
	maps.Copy(own, s.record)
	r.own = slices.Collect(maps.Keys(own))
	maps.Copy(h, own)
	return h.plain()
}

// network is the one inside a Supervised model.
func network(m Model) any {
	if s, ok := m.(*Supervised); ok && s != nil {
		return s.Net
	}
	return nil
}

// plain returns values as they come back from JSON; what JSON cannot hold is text.
func (h Hyperparameters) plain() Hyperparameters {
	out := make(Hyperparameters, len(h))
	for name, v := range h {
		var back any
		b, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		switch reflect.ValueOf(v).Kind() {
		case reflect.Func, reflect.Chan, reflect.Pointer, reflect.UnsafePointer:
			if err != nil { // an address would be another one in every run
				back = fmt.Sprintf("%T", v)
			}
		default:
			if err != nil { // NaN
				back = fmt.Sprint(v)
			}
		}
		out[name] = back
	}
	return out
}

// snake turns the name of an option into one of a hyperparameter: WeightDecay to
// weight_decay.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && s[i-1] >= 'a' {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// free are those that only say when a run ends: it may go on with others. That a
// model is another one is found by its tensors.
var free = map[string]bool{"trainer.max_epochs": true, "trainer.early_stopping": true, "trainer.keep_best": true, "trainer.ranks": true, "model.parameters": true}

// batches are those that decide what the batches of an epoch are.
var batches = []string{"data.batch_size", "data.drop_last", "data.in_order", "data.examples"}

// compare refuses a checkpoint of a run that was made otherwise, unless that is
// accepted by name. moved reports that the batches of an epoch are others.
func (r *run) compare(s *saved) (moved bool, err error) {
	if s.Hyper == nil { // of an earlier version
		return false, nil
	}
	here := maps.Clone(r.report.Hyperparameters)
	there := maps.Clone(s.Hyper)
	// The learning rate of the next step, by the optimizer's rate and the schedule.
	if s.LR != nil {
		here[scheduleName], there[scheduleName] = r.schedule(s.Steps), *s.LR
	}
	known := maps.Clone(here)
	maps.Copy(known, there)
	var changes []Change
	accepted := map[string]bool{}
	for _, name := range r.set.accept {
		if _, ok := known[name]; !ok {
			return false, bad("AcceptChanges(%q): there is no such hyperparameter; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		accepted[name] = true
	}
	own := map[string]bool{}
	for _, name := range slices.Concat(r.own, s.Own) {
		own[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		a, inThere := there[name]
		b, inHere := here[name]
		switch {
		case free[name], reflect.DeepEqual(a, b) && inThere == inHere:
			continue
		case !(inThere && inHere) && !own[name]: // another version knows more, or another optimizer has it
			continue
		}
		if slices.Contains(batches, name) {
			moved = true
		}
		if !accepted[name] {
			changes = append(changes, Change{name, a, b})
		}
	}
	if len(changes) > 0 {
		return false, &ChangedError{Folder: r.set.checkpoints, Changes: changes}
	}
	return moved, nil
}

// scheduleName is that of what the schedule says about the next step.
const scheduleName = "trainer.schedule"

func show(v any) string {
	if v == nil {
		return "not given"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
