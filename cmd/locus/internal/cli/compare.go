package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/job"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/printable"
	"github.com/locusml/locus/weights"
)

func (a *app) compare() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare RUN...",
		Short: "Put runs beside each other: what came of them, and what differs",
		Long: `Reads the weights of runs of locus train and shows, a line each, what came of
them and the hyperparameters in which they differ. A run is a folder that train
wrote, or the file of weights in it.`,
		Example: `  locus compare runs/digits-mlp runs/digits-mlp-2
  locus compare runs/*`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			runs := []comparedRun{}
			for _, path := range args {
				r, err := readRun(path)
				if err != nil {
					return err
				}
				runs = append(runs, r)
			}
			if asJSON {
				return a.json(runs)
			}
			a.showRuns(runs)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// comparedRun is a run as its weights describe it.
type comparedRun struct {
	Path string     `json:"path"`
	Card model.Card `json:"run"`
}

func readRun(path string) (comparedRun, error) {
	file := path
	if info, err := os.Stat(path); err != nil {
		return comparedRun{}, err
	} else if info.IsDir() {
		file = filepath.Join(path, job.WeightsFile)
		if _, err := os.Stat(file); err != nil {
			return comparedRun{}, fmt.Errorf("%s: there is no %s: not a run of locus train that has ended", path, job.WeightsFile)
		}
	}
	f, err := weights.Open(file)
	if err != nil {
		return comparedRun{}, err
	}
	defer f.Close()
	card, ok := model.CardOf(f.Metadata())
	if !ok {
		return comparedRun{}, fmt.Errorf("%s: %w", file, model.ErrNoCard)
	}
	return comparedRun{path, card}, nil
}

// showRuns prints a table with a row for each run.
func (a *app) showRuns(runs []comparedRun) {
	t := &text.Table{Head: []string{"run", "model", "data", "test accuracy", "test loss", "epochs"}, Right: map[int]bool{3: true, 4: true, 5: true}, Shrink: -1}
	differ := differing(runs)
	for i, name := range differ {
		t.Head = append(t.Head, name)
		t.Right[6+i] = true
	}
	best, at := -1.0, -1
	for i, r := range runs {
		if v, ok := r.Card.Result["test_accuracy"].(float64); ok && v > best {
			best, at = v, i
		}
	}
	for _, r := range runs {
		row := []string{printable.Text(r.Path), printable.Text(r.Card.Model), printable.Text(r.Card.Data), percent(r.Card.Result["test_accuracy"]), number(r.Card.Result["test_loss"]), number(r.Card.Result["epochs"])}
		for _, name := range differ {
			row = append(row, printable.Text(number(r.Card.Hyper[name])))
		}
		t.Add(row...)
	}
	a.out.Table(t, 0)
	if len(runs) > 1 && at >= 0 {
		a.out.Println()
		a.out.Printf("best: %s, %s of the test set right\n", printable.Text(runs[at].Path), percent(best))
	}
}

// differing lists the hyperparameters that are not the same in all runs.
func differing(runs []comparedRun) []string {
	names := map[string]bool{}
	for _, r := range runs {
		for name, v := range r.Card.Hyper {
			for _, other := range runs {
				if fmt.Sprint(other.Card.Hyper[name]) != fmt.Sprint(v) && name != "epochs" {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func percent(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.1f %%", 100*f)
	}
	return "-"
}

func number(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float64:
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprint(v)
}
