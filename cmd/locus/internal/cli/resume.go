package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/job"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/train"
)

// freeFolder is the first of base, base-2, base-3, … that holds no run, so that a
// run does not replace an earlier one's weights; for a run that goes on, the last
// that does.
func freeFolder(base string, resume bool) string {
	last := base
	for n := 1; ; n++ {
		folder := base
		if n > 1 {
			folder = fmt.Sprintf("%s-%d", base, n)
		}
		switch {
		case job.Taken(folder):
			last = folder
		case resume:
			return last
		default:
			return folder
		}
	}
}

// asBefore sets the flags that were not given to those of the run that goes on.
func (f *trainFlags) asBefore(c *cobra.Command) error {
	given := *f
	if err := given.folders(); err != nil {
		return err
	}
	b, err := disk.ReadFile(filepath.Join(given.Checkpoints, model.CardFile), 16<<20)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var card model.Card
	if err := json.Unmarshal(b, &card); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(given.Checkpoints, model.CardFile), err)
	}
	// The folder stays the one that was found.
	f.out, f.Checkpoints = given.Out, given.Checkpoints
	if f.out == "" {
		f.out = "none"
	}
	set := map[string]any{"model": card.Model, "data": card.Data}
	for _, name := range []string{"batch", "lr", "optimizer", "precision", "seed", "clip", "limit", "patience", "size", "target", "task", "sync-batch-norm", "shard-optimizer"} {
		if v, ok := card.Hyper[name]; ok {
			set[name] = v
		}
	}
	for name, v := range set {
		if c.Flags().Changed(name) || v == "" {
			continue
		}
		if err := c.Flags().Set(name, fmt.Sprint(v)); err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Join(given.Checkpoints, model.CardFile), name, err)
		}
	}
	for _, name := range f.accept {
		n, ok := hyperOf[strings.TrimLeft(name, "-")]
		if !ok {
			return usagef("--accept %s: not a flag that a resumed run can change; there are %s", name, strings.Join(acceptable(), ", "))
		}
		f.Accept = append(f.Accept, n...)
	}
	return nil
}

// hyperOf has the trainer's names of what flags choose.
var hyperOf = map[string][]string{
	"lr": {"optimizer.lr"}, "batch": {"data.batch_size"}, "limit": {"data.examples", "data.validation_examples"}, "clip": {"trainer.clip_gradients"},
	"precision": {"trainer.precision"}, "optimizer": {"optimizer"}, "gpus": {"trainer.devices"},
}

func acceptable() (names []string) {
	for n := range hyperOf {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// inFlags says an error of the trainer in terms of flags.
func inFlags(err error) error {
	var changed *train.ChangedError
	if errors.As(err, &changed) {
		var lines, names []string
		for _, c := range changed.Changes {
			flag := c.Name
			for f, hyper := range hyperOf {
				if slices.Contains(hyper, c.Name) {
					flag = "--" + f
					if !slices.Contains(names, f) {
						names = append(names, f)
					}
				}
			}
			lines = append(lines, fmt.Sprintf("  %s: %s", flag, c))
		}
		return fmt.Errorf("the checkpoints in %s are of another run:\n%s\n  fix: leave these flags out, or accept the changes with --accept %s", changed.Folder, strings.Join(lines, "\n"), strings.Join(names, ","))
	}
	msg := err.Error()
	said := strings.NewReplacer("ClipGradients", "--clip", "Seed(", "--seed (", "MaxEpochs", "--epochs", "Options.BatchSize", "--batch", "Devices(locus.TryGPU())", "--device cpu").Replace(msg)
	if said == msg {
		return err
	}
	return saidError{said, err}
}

// saidError is an error in other words.
type saidError struct {
	text string
	error
}

func (e saidError) Error() string { return e.text }
func (e saidError) Unwrap() error { return e.error }
