package train

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
)

// curves draws a run on a board: a panel per metric, with its values in training
// and on the validation data, and what the run costs (examples per
// second, memory of the devices) and its learning rate where that changes. All of
// them are by epoch, to the last one that is planned.
type curves struct {
	board   *board.Board
	run     string                // "" or what its curves are called among those of other runs
	epochs  int                   // planned
	axes    map[string]board.Axes // of the panels that this run has set up
	since   time.Time             // when the examples below were counted
	counted int                   // examples of the epoch by then
}

// newCurves returns nil without a board.
func newCurves(s *settings) *curves {
	if s.board == nil {
		return nil
	}
	return &curves{board: s.board, run: s.boardRun, epochs: s.maxEpochs, axes: map[string]board.Axes{}}
}

// draw adds a point of a panel's curve. What is not finite is not drawn.
func (c *curves) draw(panel, label, unit string, x, y float64) {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return
	}
	panel = strings.ReplaceAll(panel, "/", " ") // a slash ends the name of a panel
	c.prepare(panel, unit)
	c.board.Draw(c.series(panel, label), x, y, 1)
}

// series is the name of a curve on the board.
func (c *curves) series(panel, label string) string {
	if c.run != "" {
		label = c.run + " " + label
	}
	return panel + "/" + label
}

// restore draws the epochs that a resumed run has behind it, unless the board has
// them already.
func (c *curves) restore(epochs []Epoch) {
	if c == nil || len(epochs) == 0 || slices.Contains(c.board.Series(), c.series("loss", "training")) {
		return
	}
	for _, e := range epochs {
		x := float64(e.Number + 1)
		c.metrics(x, "training", e.Train)
		c.metrics(x, "validation", e.Validation)
		c.draw("throughput", "training", throughputUnit, x, float64(e.Examples)/e.Time.Seconds())
	}
}

const throughputUnit = "examples/s"

// prepare sets a panel's axes, once, where the program has not.
func (c *curves) prepare(panel, unit string) {
	if _, ok := c.axes[panel]; ok {
		return
	}
	a := c.board.Axes(panel)
	if a.XLabel == "" && c.board.Axes("").XLabel == "" {
		a.XLabel = "epoch"
	}
	if a.YLabel == "" {
		a.YLabel = unit
	}
	a.YFromZero = a.YFromZero || unit != ""                                        // costs are read from 0
	if a.XLim == [2]float64{} || a.XLim[0] == 0 && a.XLim[1] < float64(c.epochs) { // another run may be planned to be longer
		a.XLim = [2]float64{0, float64(c.epochs)}
	}
	if c.board.SetAxes(panel, a) != nil { // a log axis of x, which begins above 0
		a.XLim = [2]float64{}
	}
	c.axes[panel] = a
}

// metrics draws means or scores, the loss first.
func (c *curves) metrics(x float64, stage string, values map[string]float64) {
	if c == nil {
		return
	}
	names := slices.Sorted(maps.Keys(values))
	if i := slices.Index(names, "loss"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "loss")
	}
	for _, k := range names {
		c.draw(k, stage, "", x, values[k])
	}
}

// begin starts the clock of an epoch, in which examples have been trained on
// already if the run was resumed.
func (c *curves) begin(examples int) {
	if c != nil {
		c.since, c.counted = time.Now(), examples
	}
}

// costs draws the pace since the last time, and the most memory that the run has
// needed so far. Metrics have been read, so the devices have done their work.
func (c *curves) costs(x float64, r *run) {
	if c == nil {
		return
	}
	now, examples := time.Now(), r.epoch.Examples
	if examples > c.counted {
		c.draw("throughput", "training", throughputUnit, x, float64(examples-c.counted)/now.Sub(c.since).Seconds())
	}
	c.since, c.counted = now, examples
	seen := map[locus.Device]bool{}
	for _, d := range r.devices {
		if !seen[d] {
			c.draw("memory", d.String(), "peak MiB", x, float64(d.MemoryStats().Peak)/(1<<20))
		}
		seen[d] = true
	}
	if r.set.schedule != nil || r.plateau != nil {
		c.draw("learning rate", "learning rate", "", x, r.epoch.LR)
	}
}

// end fits the axes to a run that ended before its last epoch.
func (c *curves) end(epochs int) {
	if c == nil {
		return
	}
	c.board.Flush()
	if epochs == 0 || epochs >= c.epochs {
		return
	}
	for panel, a := range c.axes {
		if now := c.board.Axes(panel); now == a && a.XLim[1] == float64(c.epochs) {
			now.XLim[1] = float64(epochs)
			_ = c.board.SetAxes(panel, now) // 0 to a positive number can be drawn
		}
	}
}
