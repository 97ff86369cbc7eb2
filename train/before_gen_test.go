//go:build before

package train_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// TestWriteBefore writes testdata/before anew:
//
//	go test -tags before -run TestWriteBefore ./train
//
// Files that are there are promises; a change that needs new ones breaks them.
// Write a new run beside them instead.
func TestWriteBefore(t *testing.T) {
	for _, r := range beforeRuns() {
		folder := filepath.Join("testdata", "before", r.name)
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		whole := r.build()
		if report := must(t)(train.New(r.all()...).Fit(whole, beforeData(t))); report.Steps != r.steps {
			t.Fatalf("%s took %d steps", r.name, report.Steps)
		}
		if err := nn.Save(filepath.Join(folder, "end.safetensors"), whole); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stop := train.AfterStep(func(s *train.Step) error {
			if s.Steps == r.from {
				cancel()
			}
			return nil
		})
		_, err := train.New(r.all(train.Checkpoints(filepath.Join(folder, "checkpoints"), 1), stop)...).FitContext(ctx, r.build(), beforeData(t))
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
