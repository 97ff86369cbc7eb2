package bench

import (
	"fmt"
	"time"

	"github.com/locusml/locus/board"
	"github.com/locusml/locus/cmd/locus/internal/page"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/units"
)

// Part is an exercise as people read it.
type Part struct {
	Name   string // of its files
	Title  string
	Asked  string   // the question
	Seen   []string // what was seen, in paragraphs
	Notes  []string // what the figures do not say
	Table  page.Table
	Figure *board.Board
}

const virtualNote = "The GPU is virtual: it lives in main memory and this machine's CPU does its work. Its times show what queueing and copying cost here; they say nothing about the speed of a real card."

// Parts returns the exercises that were measured.
func (r *Results) Parts() ([]Part, error) {
	var parts []Part
	for _, make := range []func() (*Part, error){r.partProducts, r.partParameters, r.partLog, r.partParallel, r.partOverlap} {
		p, err := make()
		if err != nil {
			return nil, err
		}
		if p != nil {
			parts = append(parts, *p)
		}
	}
	return parts, nil
}

// note adds the one about virtual GPUs where it belongs.
func note(virtual bool, p *Part) {
	if virtual {
		p.Notes = append(p.Notes, virtualNote)
	}
}

// point draws a point that can be drawn: logarithmic axes know no zero.
func point(b *board.Board, series string, x, y float64) {
	if y > 0 {
		b.Draw(series, x, y, 1)
	}
}

func (r *Results) partProducts() (*Part, error) {
	p := r.Products
	if p == nil {
		return nil, nil
	}
	gpu := r.GPU.Device.String()
	b := &board.Board{}
	part := &Part{Name: "products", Title: "1. Matrix products on the CPU and on a GPU",
		Asked:  "How much faster is a GPU at large products, and what about small ones?",
		Table:  page.Table{Head: []string{"n", "cpu", gpu + ", waited for", gpu + ", queued", "cpu GFLOP/s", gpu + " GFLOP/s", "cpu time / " + gpu}},
		Figure: b}
	for _, row := range p.Rows {
		n := float64(row.N)
		point(b, "time of a product/cpu", n, row.CPU.Median*1e6)
		point(b, "time of a product/"+gpu+", waited for", n, row.GPU.Median*1e6)
		point(b, "time of a product/"+gpu+", queued", n, row.Queued.Median*1e6)
		part.Table.Rows = append(part.Table.Rows, []string{fmt.Sprint(row.N), duration(row.CPU), duration(row.GPU), duration(row.Queued),
			gflops(row.N, row.CPU), gflops(row.N, row.Queued), fmt.Sprintf("%.2f×", row.CPU.Median/row.GPU.Median)})
	}
	small, large := p.Rows[0], p.Rows[len(p.Rows)-1]
	part.Seen = []string{
		fmt.Sprintf("A product of two %d×%d matrices takes %s on the CPU and %s on %s if its result is waited for. Its arithmetic is next to nothing: what is measured is the way to the device and back. Queued %s it takes %s a product, because only the last one is waited for.",
			small.N, small.N, duration(small.CPU), duration(small.GPU), gpu, "behind others", duration(small.Queued)),
		fmt.Sprintf("At %d×%d the work is %.1f GFLOP and the way no longer matters: %s on the CPU (%s GFLOP/s), %s on %s (%s GFLOP/s).",
			large.N, large.N, Rate(large.N, 1)/1e9, duration(large.CPU), gflops(large.N, large.CPU), duration(large.GPU), gpu, gflops(large.N, large.GPU)),
		crossing(p, gpu),
	}
	note(r.GPU.Virtual, part)
	return part, b.SetAxes("time of a product", board.Axes{Title: "Time of a product of two n×n matrices", XLabel: "n", YLabel: "µs", XScale: board.Log, YScale: board.Log})
}

func crossing(p *Products, gpu string) string {
	switch {
	case p.Cross == 0 && p.CrossQueued == 0:
		return fmt.Sprintf("The curves do not cross: up to %d×%d the CPU is at least as fast as %s.", p.Rows[len(p.Rows)-1].N, p.Rows[len(p.Rows)-1].N, gpu)
	case p.Cross == 0:
		return fmt.Sprintf("With results waited for, the CPU stays ahead. With work queued, %s is ahead from n = %d on.", gpu, p.CrossQueued)
	case p.CrossQueued == 0:
		return fmt.Sprintf("The curves cross at n = %d: from there on %s is faster if each result is waited for.", p.Cross, gpu)
	}
	return fmt.Sprintf("The curves cross at n = %d: from there on %s is faster even if each result is waited for. With work queued it is ahead from n = %d on.", p.Cross, gpu, p.CrossQueued)
}

func (r *Results) partParameters() (*Part, error) {
	p := r.Parameters
	if p == nil {
		return nil, nil
	}
	gpu := r.GPU.Device.String()
	b := &board.Board{}
	part := &Part{Name: "parameters", Title: "2. Reading and writing parameters",
		Asked:  "How are a network's parameters read and written on a device, and what does it cost?",
		Table:  page.Table{Head: []string{"size", "write", "read", "write GB/s", "read GB/s", "scaled there", "scaled by the host"}},
		Figure: b}
	for _, row := range p.Rows {
		n := float64(row.Bytes())
		point(b, "parameters/write", n, row.Write.Median*1e6)
		point(b, "parameters/read", n, row.Read.Median*1e6)
		point(b, "parameters/scale on the device", n, row.OnDevice.Median*1e6)
		point(b, "parameters/read, scale in Go, write", n, row.ByHost.Median*1e6)
		part.Table.Rows = append(part.Table.Rows, []string{units.Bytes(row.Bytes()), duration(row.Write), duration(row.Read),
			text.Number(n / row.Write.Median / 1e9), text.Number(n / row.Read.Median / 1e9), duration(row.OnDevice), duration(row.ByHost)})
	}
	last := p.Rows[len(p.Rows)-1]
	part.Seen = []string{
		fmt.Sprintf("Value and Set of a parameter give and take tensors, wherever they are; From and ToSlice bring numbers from and to Go. Writing %s to %s took %s, reading it back %s.",
			units.Bytes(last.Bytes()), gpu, duration(last.Write), duration(last.Read)),
		fmt.Sprintf("An update that stays on the device took %s; by reading, changing in Go and writing back it took %s, %s.",
			duration(last.OnDevice), duration(last.ByHost), against(last.ByHost, last.OnDevice, "staying there")),
	}
	if last.ByHost.Median > last.OnDevice.Median {
		part.Seen[1] += " So parameters are read for a file, now and then, and otherwise left where they are: optimizers work on the device."
	}
	note(r.GPU.Virtual, part)
	return part, b.SetAxes("parameters", board.Axes{Title: "Touching a parameter on " + gpu, XLabel: "bytes", YLabel: "µs", XScale: board.Log, YScale: board.Log})
}

func (r *Results) partLog() (*Part, error) {
	l := r.Log
	if l == nil {
		return nil, nil
	}
	b := &board.Board{}
	part := &Part{Name: "log", Title: fmt.Sprintf("3. %d products of %d×%d and a log of their norms", l.Products, l.N, l.N),
		Asked:  "What does it cost to read each norm when it is known, instead of keeping them on the device and reading all at the end?",
		Table:  page.Table{Head: []string{"device", "way", "time", "a product", "copies and waits"}, Numbers: 2},
		Figure: b}
	for i, d := range l.Devices {
		for j, w := range []Way{d.Each, d.Kept, d.Batch} {
			// A bar of its own for each, drawn as a line from zero.
			x := float64(4*i + j + 1)
			series := fmt.Sprintf("log/%s, %s", d.Device, w.Name)
			b.Draw(series, x, 0, 1)
			b.Draw(series, x, w.Time.Median*1e3, 1)
			part.Table.Rows = append(part.Table.Rows, []string{d.Device.String(), w.Name, duration(w.Time), duration(w.Time.per(l.Products)), text.Count(w.Transfers)})
		}
	}
	g := l.Devices[len(l.Devices)-1]
	verdict := "that is " + against(g.Kept.Time, g.Each.Time, "reading each")
	if g.Kept.Time.Median > g.Each.Time.Median {
		verdict += ": here a wait costs less than keeping a thousand small tensors"
	}
	part.Seen = []string{
		fmt.Sprintf("On %s, reading every norm took %s and %s copies and waits. Kept there and read at the end it took %s and %s; %s.",
			g.Device, duration(g.Each.Time), text.Count(g.Each.Transfers), duration(g.Kept.Time), text.Count(g.Kept.Transfers), verdict),
		fmt.Sprintf("As one batched product the same work took %s, %s. On the CPU reading is not a transfer: results are there when the call returns.",
			duration(g.Batch.Time), against(g.Batch.Time, g.Each.Time, "a thousand small ones with reading")),
	}
	note(r.GPU.Virtual, part)
	return part, b.SetAxes("log", board.Axes{Title: fmt.Sprintf("Time of %d products with their norms", l.Products), YLabel: "ms", XLabel: "each way a bar, in the order of the table", XLim: [2]float64{0, float64(4 * len(l.Devices))}})
}

func (r *Results) partParallel() (*Part, error) {
	p := r.Parallel
	if p == nil {
		return nil, nil
	}
	b := &board.Board{}
	one, two := r.Pair[0].Device, r.Pair[1].Device
	part := &Part{Name: "parallel", Title: "4. Two GPUs at once",
		Asked:  "Are two GPUs twice as fast as one?",
		Table:  page.Table{Head: []string{"n", "in sequence on " + one.String(), fmt.Sprintf("at once on %s and %s", one, two), "faster", "with a wait between", "faster"}},
		Figure: b}
	for _, row := range p.Rows {
		n := float64(row.N)
		b.Draw("scaling/at once", n, row.Speedup(), 1)
		b.Draw("scaling/with a wait between", n, row.Sequence.Median/row.Waiting.Median, 1)
		part.Table.Rows = append(part.Table.Rows, []string{fmt.Sprint(row.N), duration(row.Sequence), duration(row.AtOnce), fmt.Sprintf("%.2f×", row.Speedup()),
			duration(row.Waiting), fmt.Sprintf("%.2f×", row.Sequence.Median/row.Waiting.Median)})
	}
	last := p.Rows[len(p.Rows)-1]
	part.Seen = []string{
		fmt.Sprintf("%d products of %d×%d matrices in sequence on %s took %s; half of them on each of two GPUs took %s, %s.",
			2*last.Products, last.N, last.N, one, duration(last.Sequence), duration(last.AtOnce), against(last.AtOnce, last.Sequence, "on one")),
		fmt.Sprintf("Nothing in the program says that the two run at the same time: ops are queued and the call returns. A wait between the two rounds takes that away: %s, %s. A loss that is printed at every step is such a wait.",
			duration(last.Waiting), against(last.Waiting, last.AtOnce, "without it")),
	}
	if r.Pair[0].Virtual {
		part.Notes = append(part.Notes, "Both GPUs are virtual and share this machine's cores. "+sharing(pool.Threads())+" Two real cards, each with processors of its own, should come close to 2×. What can be seen here is that the program runs on two devices, and what a wait does.")
	}
	return part, b.SetAxes("scaling", board.Axes{Title: "How many times faster two GPUs are", XLabel: "n", YLabel: "times", XScale: board.Log, YLim: [2]float64{0, 2.5}})
}

// sharing says what virtual GPUs can gain from working at once.
func sharing(threads int) string {
	if threads == 1 {
		return "With one thread each runs on one core, so on a machine with two idle cores they should come close to 2×."
	}
	return fmt.Sprintf("One product alone runs on %d threads already, so no scaling is to be expected from two, and what there is comes from overlapping the parts of a product that one core does; LOCUS_THREADS=1 gives each of them one core.", threads)
}

func (r *Results) partOverlap() (*Part, error) {
	o := r.Overlap
	if o == nil {
		return nil, nil
	}
	gpu := r.GPU.Device
	b := &board.Board{}
	part := &Part{Name: "overlap", Title: "5. Copies during computation",
		Asked:  "Does data go to a GPU while it computes?",
		Table:  page.Table{Head: []string{"copy", fmt.Sprintf("products of %d×%d", o.N, o.N), "products alone", "copy alone", "apart", "at once", "faster"}},
		Figure: b}
	for _, row := range o.Rows {
		size := float64(row.Bytes) / (1 << 20)
		b.Draw("overlap/at once", size, row.Speedup(), 1)
		part.Table.Rows = append(part.Table.Rows, []string{fmt.Sprintf("%.0f MiB", size), fmt.Sprint(row.Products), duration(row.Compute), duration(row.Copy), duration(row.Apart), duration(row.AtOnce), fmt.Sprintf("%.2f×", row.Speedup())})
	}
	last := o.Rows[len(o.Rows)-1]
	part.Seen = []string{fmt.Sprintf("A copy of %d MiB to %s and %d products took %s with a wait between them, and %s when both were queued, %s. Nothing in the program says that they run at the same time; the copy comes from page-locked memory (Pin), which the GPU reads by itself.",
		last.Bytes>>20, gpu, last.Products, duration(last.Apart), duration(last.AtOnce), against(last.AtOnce, last.Apart, "apart"))}
	if r.GPU.Virtual {
		part.Notes = append(part.Notes, "The GPU is virtual: it has one queue, in which copies stand among the products, so nothing is to be gained here. On a real card the shorter of the two should disappear.")
	}
	return part, b.SetAxes("overlap", board.Axes{Title: "How many times faster at once than apart", XLabel: "MiB", YLabel: "times", XScale: board.Log, YLim: [2]float64{0, 2.5}})
}

// against says how a timing compares with another.
func against(t, other Timing, what string) string {
	switch f := t.Median / other.Median; {
	case f > 1.05:
		return text.Number(f) + " times as long as " + what
	case f < 0.95:
		return text.Number(1/f) + " times as fast as " + what
	}
	return "about as long as " + what
}

func duration(t Timing) string { return text.Duration(t.Duration()) }

func gflops(n int, t Timing) string { return text.Number(Rate(n, t.Median) / 1e9) }

// Page makes the report.
func (r *Results) Page(version string) (*page.Page, error) {
	parts, err := r.Parts()
	if err != nil {
		return nil, err
	}
	p := &page.Page{
		Title: "What the devices of this machine can do",
		Lead:  "The exercises of a first lesson on GPUs, measured: when a GPU pays off, what moving data costs, what a wait costs, whether two are twice as fast as one, and whether copies hide behind computing.",
		Facts: [][2]string{{"CPU", r.CPU.Name + " (" + r.CPU.Backing + ")"}, {"GPU", r.GPU.String()}, {"pair", r.Pair[0].String() + " and " + r.Pair[1].String()}, {"measured", r.Time.Format(time.RFC1123)}},
		Foot:  "Written by " + version + ". Times are medians of several runs, after one that does not count.",
	}
	if note := r.Noise(); note != "" {
		p.Facts = append(p.Facts, [2]string{"noise", note})
	}
	for _, part := range parts {
		figures, err := page.Figures(part.Figure)
		if err != nil {
			return nil, err
		}
		p.Sections = append(p.Sections, page.Section{Title: part.Title, Text: append([]string{part.Asked}, part.Seen...), Notes: part.Notes, Figures: figures, Tables: []page.Table{part.Table}})
	}
	return p, nil
}

// String returns "gpu:0, NVIDIA H200 (…)".
func (d Device) String() string { return fmt.Sprintf("%s, %s (%s)", d.Device, d.Name, d.Backing) }

// Noise says so if runs of the same thing lay far apart.
func (r *Results) Noise() string {
	if r.Spread < 1.5 {
		return ""
	}
	return fmt.Sprintf("half of the runs of one and the same thing lay up to %.3g times apart, so small differences mean nothing", r.Spread)
}
