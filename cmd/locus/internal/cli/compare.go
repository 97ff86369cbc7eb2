package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/board"
	"github.com/locusml/locus/cmd/locus/internal/job"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/printable"
	"github.com/locusml/locus/weights"
)

func (a *app) compare() *cobra.Command {
	var asJSON bool
	var picture, page string
	c := &cobra.Command{
		Use:   "compare RUN...",
		Short: "Compare runs: their results, and the hyperparameters that differ",
		Long: `Reads the weights of runs of locus train and shows, one per line, their results
and the hyperparameters in which they differ. A run is a folder that train
wrote, or the file of weights in it.

With --board the curves of all runs are on one web page, with --picture in one
file; for these, folders of runs that have not ended will do.`,
		Example: `  locus compare runs/digits-mlp runs/digits-mlp-2
  locus compare runs/* --picture runs.png
  locus compare runs/* --board`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if picture != "" || page != "" {
				return a.compareCurves(c.Context(), args, picture, page)
			}
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
	c.Flags().StringVar(&picture, "picture", "", "write the curves of all runs to a file that ends in .png or .svg")
	c.Flags().StringVar(&page, "board", "", "show the curves of all runs on a web page, at `ADDRESS` if one is given")
	c.Flags().Lookup("board").NoOptDefVal = boardHere
	jsonFlag(c, &asJSON)
	return c
}

// compareCurves shows the curves of runs in one picture, or on one page until
// Ctrl-C.
func (a *app) compareCurves(ctx context.Context, paths []string, picture, page string) (err error) {
	b := &board.Board{}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.SetAxes("", board.Axes{Title: "Runs", XLabel: "epoch"}); err != nil {
		return err
	}
	for panel, unit := range map[string]string{"throughput": "examples/s", "memory": "peak MiB"} { // as package train has them
		if err := b.SetAxes(panel, board.Axes{YLabel: unit, YFromZero: true}); err != nil {
			return err
		}
	}
	for i, path := range paths {
		folder := path
		if info, err := os.Stat(path); err != nil {
			return err
		} else if !info.IsDir() {
			folder = filepath.Dir(path)
		}
		log := filepath.Join(folder, job.LogFile)
		if _, err := os.Stat(log); err != nil {
			return fmt.Errorf("%s: there is no %s: not a run of locus train, or one of an earlier version", path, job.LogFile)
		}
		if err := b.Load(log, runNames(paths)[i]); err != nil {
			return err
		}
	}
	if picture != "" {
		if err := b.Save(picture); err != nil {
			return err
		}
		a.out.Println("curves of " + text.Count(len(paths)) + " runs in " + picture)
	}
	if page == "" {
		return nil
	}
	url, err := b.Serve(strings.TrimSuffix(page, boardHere))
	if err != nil {
		return err
	}
	a.err.Println("curves at " + a.err.Style(text.Bold, url) + " until Ctrl-C")
	<-ctx.Done()
	return nil
}

// runNames are the last parts of the paths, or more of them where those are alike.
func runNames(paths []string) []string {
	parts := make([][]string, len(paths))
	for i, p := range paths {
		if filepath.Ext(p) != "" && filepath.Base(p) == job.WeightsFile {
			p = filepath.Dir(p)
		}
		parts[i] = strings.Split(filepath.ToSlash(filepath.Clean(p)), "/")
	}
	for n := 1; ; n++ {
		names, seen, whole := make([]string, len(paths)), map[string]bool{}, true
		for i, l := range parts {
			names[i] = strings.Join(l[max(0, len(l)-n):], "/")
			seen[names[i]] = true
			whole = whole && n >= len(l)
		}
		if len(seen) == len(paths) || whole {
			return names
		}
	}
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
	var classes, numbers bool
	for _, r := range runs {
		numbers = numbers || r.Card.Scaler != nil
		classes = classes || r.Card.Scaler == nil
	}
	t := &text.Table{Head: []string{"run", "model", "data"}, Right: map[int]bool{}, Shrink: -1}
	column := func(name string) {
		t.Right[len(t.Head)] = true
		t.Head = append(t.Head, name)
	}
	if classes {
		column("test accuracy")
	}
	if numbers {
		column("test RMSE")
	}
	column("test loss")
	column("epochs")
	differ := differing(runs)
	for _, name := range differ {
		column(name)
	}
	for _, r := range runs {
		row := []string{printable.Text(r.Path), printable.Text(r.Card.Model), printable.Text(r.Card.Data)}
		if classes {
			row = append(row, percent(r.Card.Result["test_accuracy"]))
		}
		if numbers {
			row = append(row, number(r.Card.Result["test_rmse"]))
		}
		row = append(row, number(r.Card.Result["test_loss"]), number(r.Card.Result["epochs"]))
		for _, name := range differ {
			row = append(row, printable.Text(number(r.Card.Hyper[name])))
		}
		t.Add(row...)
	}
	a.out.Table(t, 0)
	if len(runs) > 1 && classes != numbers { // accuracies and errors cannot be compared
		a.showBest(runs, numbers)
	}
}

// showBest names the run with the highest accuracy, or the lowest RMSE.
func (a *app) showBest(runs []comparedRun, numbers bool) {
	key, sign := "test_accuracy", 1.0
	if numbers {
		key, sign = "test_rmse", -1
	}
	best := -1
	value := func(i int) float64 { v, _ := runs[i].Card.Result[key].(float64); return sign * v }
	for i := range runs {
		if _, ok := runs[i].Card.Result[key].(float64); ok && (best < 0 || value(i) > value(best)) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	result := percent(runs[best].Card.Result[key]) + " of the test set right"
	if numbers {
		result = "RMSE " + number(runs[best].Card.Result[key]) + " on the test set"
	}
	a.out.Println()
	a.out.Printf("best: %s, %s\n", printable.Text(runs[best].Path), result)
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
