package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/page"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/train"
)

// EpochRows gives the epochs as a table: the heading, then a row each.
func EpochRows(r *train.Report) (head []string, rows [][]string) {
	head = []string{"epoch", "loss", "accuracy", "test loss", "test accuracy", "time", "examples/s", ""}
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
		rows = append(rows, []string{strconv.Itoa(e.Number + 1), loss(e.Train), Percent(e.Train), loss(e.Validation), Percent(e.Validation), text.Duration(e.Time), rate, best})
	}
	return head, rows
}

func loss(m map[string]float64) string {
	if v := m["loss"]; v >= 1e4 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.4f", m["loss"])
}

// Percent gives the accuracy among metrics.
func Percent(m map[string]float64) string { return fmt.Sprintf("%.1f %%", 100*m["accuracy"]) }

// Summary gives what there is to know of a run, by name.
func (r *Result) Summary() [][2]string {
	result := fmt.Sprintf("%s of the test set right (epoch %d of %d)", Percent(r.Final.Validation), r.Final.Number+1, len(r.Report.Epochs))
	if r.Chosen {
		result += ", an epoch chosen by the test set: a little flattering"
	}
	facts := [][2]string{
		{"network", fmt.Sprintf("%s, %s parameters", r.Card.Model, text.Count(r.Report.Parameters))},
		{"data", r.Card.Data},
		{"devices", List(r.Report.Devices)},
		{"result", result},
		{"time", fmt.Sprintf("%s, %s steps, %s examples/s", text.Duration(r.Report.Time), text.Count(r.Report.Steps), text.Count(int(r.Report.Throughput())))},
	}
	for _, d := range slices.Sorted(maps.Keys(r.Report.PeakMemory)) {
		facts = append(facts, [2]string{"peak memory on " + d, text.Bytes(r.Report.PeakMemory[d])})
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
	p := page.Page{
		Title: fmt.Sprintf("%s on %s", r.Card.Model, r.Card.Data),
		Lead:  "A training run: how it went, what came of it, and what it takes to repeat it.",
		Facts: r.Summary(),
		Sections: []page.Section{
			{Title: "Curves", Figures: figures, Text: []string{"In training the means over an epoch so far; for validation the test set after each epoch. Throughput and memory are beside them."}},
			{Title: "Epochs", Tables: []page.Table{{Head: head, Rows: rows}}},
			{Title: "Hyperparameters", Tables: []page.Table{hyper}},
		},
		Foot: "Written by " + c.Version + ".",
	}
	return p.Save(r.Page)
}
