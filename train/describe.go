package train

import (
	"fmt"
	"strings"

	"github.com/locusml/locus/nn"
)

// String lists the trainer's options that differ from the defaults, and those that
// always matter.
func (t *Trainer) String() string {
	s := t.settings()
	parts := []string{fmt.Sprintf("%d epochs", s.maxEpochs)}
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	devices, err := s.checkOptions()
	add(err == nil, "on %v", devices)
	add(err != nil, "with invalid options: %v", err)
	add(err == nil && s.ranked, "%s", s.group)
	add(s.seed != 0, "seed %d", s.seed)
	add(s.accumulate > 1, "a step every %d batches", s.accumulate)
	add(s.clip > 0, "gradients of norm at most %g", s.clip)
	add(s.lowered, "in %s", s.precision)
	add(s.eager, "not compiled")
	add(s.schedule != nil, "a schedule")
	add(s.plateau != nil, "a plateau")
	add(s.averaged, "averages of weights, decay %g", s.average)
	add(s.watches(), "monitors %s (%s)", s.monitor, s.better)
	add(s.stopEarly, "stops after %d epochs without improvement", s.patience)
	add(s.keepBest, "keeps the best epoch")
	add(s.save, "checkpoints in %s, the last %d", s.checkpoints, s.keep)
	add(s.resume, "goes on from there")
	var measures []string
	if err == nil {
		for _, m := range s.measures {
			measures = append(measures, m.Names()...)
		}
	}
	add(len(measures) > 0, "measures %s", strings.Join(measures, ", "))
	return "trainer: " + strings.Join(parts, ", ")
}

// String returns the table of the model's network: see nn.Describe.
func (m *Supervised) String() string {
	if m == nil || m.Net == nil {
		return "no network"
	}
	return nn.Describe(m)
}
