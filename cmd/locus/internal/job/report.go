package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/cmd/locus/internal/page"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/units"
	"github.com/locusml/locus/train"
)

// EpochRows returns the epochs as a table: the heading, then a row each.
func EpochRows(r *train.Report) (head []string, rows [][]string) {
	quality := QualityName(r.Last().Validation)
	head = []string{"epoch", "loss", quality, "test loss", "test " + quality, "time", "examples/s", ""}
	for _, e := range r.Epochs {
		best := ""
		if e.Best {
			best = "best so far"
		}
		if e.Number == r.BestEpoch {
			best = "best"
		}
		rate := "-"
		if e.Time > 0 {
			rate = text.Count(int(float64(e.Examples) / e.Time.Seconds()))
		}
		rows = append(rows, []string{strconv.Itoa(e.Number + 1), loss(e.Train), Quality(e.Train), loss(e.Validation), Quality(e.Validation), text.Duration(e.Time), rate, best})
	}
	return head, rows
}

func loss(m map[string]float64) string {
	if v := m["loss"]; v >= 1e4 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.4f", m["loss"])
}

// Quality returns what people ask about among metrics: the accuracy, or where
// numbers are learned the RMSE.
func Quality(m map[string]float64) string {
	if v, ok := m["rmse"]; ok {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.1f %%", 100*m["accuracy"])
}

// QualityName is what Quality returns.
func QualityName(m map[string]float64) string {
	if _, ok := m["rmse"]; ok {
		return "RMSE"
	}
	return "accuracy"
}

// Summary returns what there is to know of a run, by name.
func (r *Result) Summary() [][2]string {
	quality := Quality(r.Final.Validation) + " of the test set right"
	if r.Card.Scaler != nil {
		quality = "RMSE " + Quality(r.Final.Validation) + " on the test set"
	}
	result := fmt.Sprintf("%s (epoch %d of %d)", quality, r.Final.Number+1, len(r.Report.Epochs))
	if r.Chosen {
		result += ", an epoch chosen by the test set, so slightly optimistic"
	}
	facts := [][2]string{
		{"network", fmt.Sprintf("%s, %s parameters", r.Card.Model, text.Count(r.Report.Parameters))},
		{"data", r.Card.Data},
		{"devices", List(r.Report.Devices)},
		{"result", result},
		{"time", fmt.Sprintf("%s, %s steps, %s examples/s", text.Duration(r.Report.Time), text.Count(r.Report.Steps), text.Count(int(r.Report.Throughput())))},
	}
	for _, d := range slices.Sorted(maps.Keys(r.Report.PeakMemory)) {
		facts = append(facts, [2]string{"peak memory on " + d, units.Bytes(r.Report.PeakMemory[d])})
	}
	if r.Report.Uncompiled != "" {
		facts = append(facts, [2]string{"not compiled", r.Report.Uncompiled})
	}
	if r.Report.Stopped != "" {
		facts = append(facts, [2]string{"stopped", r.Report.Stopped})
	}
	return facts
}

// List names devices: "gpu:0 and gpu:1".
func List(devices []locus.Device) string {
	var names []string
	for _, d := range devices {
		names = append(names, d.String())
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// save writes the report as a web page.
func (r *Result) save(c *Config) error {
	figures, err := page.Figures(c.Board)
	if err != nil {
		return err
	}
	head, rows := EpochRows(r.Report)
	hyper := page.Table{Head: []string{"hyperparameter", "value"}, Numbers: 1}
	for _, k := range slices.Sorted(maps.Keys(r.Card.Hyper)) {
		hyper.Rows = append(hyper.Rows, []string{k, fmt.Sprint(r.Card.Hyper[k])})
	}
	sections := []page.Section{
		{Title: "Curves", Figures: figures, Text: []string{"In training the means over an epoch so far; for validation the test set after each epoch. Throughput and memory are next to them."}},
	}
	if r.Confusion != nil {
		matrix, err := page.Matrix(board.Matrix{Values: r.Confusion, Rows: r.Card.Classes, Columns: r.Card.Classes, YLabel: "true", XLabel: "predicted", ByRow: true, HideZeros: true})
		if err != nil {
			return err
		}
		sections = append(sections, page.Section{Title: "Confusion matrix", Text: []string{"The test set: a row per class, with the classes that its examples were predicted as."}, Picture: matrix})
	}
	p := page.Page{
		Title: fmt.Sprintf("%s on %s", r.Card.Model, r.Card.Data),
		Lead:  "A training run: its curves, its result, and how to repeat it.",
		Facts: r.Summary(),
		Sections: append(sections,
			page.Section{Title: "Epochs", Tables: []page.Table{{Head: head, Rows: rows}}},
			page.Section{Title: "Hyperparameters", Tables: []page.Table{hyper}}),
		Foot: "Written by " + c.Version + ".",
	}
	return p.Save(r.Page)
}
