package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/bench"
	"github.com/locusml/locus/cmd/locus/internal/page"
	"github.com/locusml/locus/cmd/locus/internal/text"
)

type benchFlags struct {
	bench.Options
	device, out string
	quick       bool
	asJSON      bool
}

func (a *app) bench() *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use:   "bench [EXERCISE...]",
		Short: "Measure the devices: products, copies, waits, two GPUs at once",
		Long: `Measures what every user of a GPU should have measured once, and explains the
results in tables, plots and a web page:

` + exercises() + `

Where there is no real GPU, virtual ones show what queueing and copying cost;
the report says so, and what their figures do not say.`,
		Example: `  locus bench
  locus bench log parallel
  locus bench 1 --sizes 64,256,1024 --json`,
		ValidArgs: bench.Names,
		RunE:      func(c *cobra.Command, args []string) error { return a.runBench(c, f, args) },
	}
	fl := c.Flags()
	fl.StringVar(&f.device, "device", "", "the GPU to measure (the first, a virtual one if there is none)")
	fl.IntSliceVar(&f.Sizes, "sizes", nil, "sizes of the matrices of products and parallel")
	fl.DurationVar(&f.Budget, "time", 200*time.Millisecond, "time for each figure")
	fl.BoolVar(&f.quick, "quick", false, "small sizes and little time: to see that it works")
	fl.StringVar(&f.out, "out", filepath.Join("runs", "bench"), `folder for the report and the plots ("none" writes nothing)`)
	jsonFlag(c, &f.asJSON)
	complete(c, "device", completeDevices)
	return c
}

func exercises() string {
	var lines []string
	for i, n := range bench.Names {
		for j, l := range text.Wrap(bench.About[n], 62) {
			if j == 0 {
				lines = append(lines, fmt.Sprintf("  %d  %-11s %s", i+1, n, l))
			} else {
				lines = append(lines, strings.Repeat(" ", 17)+l)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func (a *app) runBench(c *cobra.Command, f *benchFlags, args []string) error {
	for _, arg := range args {
		if i, err := strconv.Atoi(arg); err == nil && i >= 1 && i <= len(bench.Names) {
			arg = bench.Names[i-1]
		}
		if !slices.Contains(bench.Names, arg) {
			return usagef("there is no exercise %q; there are %s (or 1 to %d)", arg, strings.Join(bench.Names, ", "), len(bench.Names))
		}
		f.Which = append(f.Which, arg)
	}
	for _, n := range f.Sizes {
		if n < 1 || n > 1<<15 {
			return usagef("--sizes: %d is not a size from 1 to 32768", n)
		}
	}
	if f.Budget <= 0 {
		return usagef("--time %s: want a positive duration", f.Budget)
	}
	slices.Sort(f.Sizes)
	if f.quick {
		f.Budget = time.Millisecond
		if f.Sizes == nil {
			f.Sizes = []int{4, 32, 128}
		}
	}
	if f.device != "" {
		list, err := parseDevices("device", f.device)
		if err != nil {
			return err
		}
		f.GPU = &list[0]
	}
	f.Began = func(name string) {
		if a.err.Terminal {
			a.err.Println(a.err.Style(text.Dim, "measuring: "+bench.About[name]))
		}
	}
	if f.out != "none" { // found out before the measuring, not after
		if err := os.MkdirAll(f.out, 0o777); err != nil {
			return err
		}
	}
	r, err := bench.Run(c.Context(), f.Options)
	if err != nil {
		return err
	}
	if err := a.keepBench(f, r); err != nil {
		return err
	}
	if f.asJSON {
		return a.json(r)
	}
	return a.showBench(f, r)
}

// keepBench writes report, plots and figures.
func (a *app) keepBench(f *benchFlags, r *bench.Results) error {
	if f.out == "none" {
		return nil
	}
	p, err := r.Page(strings.TrimSpace(version()))
	if err != nil {
		return err
	}
	if err := p.Save(filepath.Join(f.out, "report.html")); err != nil {
		return err
	}
	parts, err := r.Parts()
	if err != nil {
		return err
	}
	for _, part := range parts {
		for _, ext := range []string{".png", ".svg"} {
			if err := part.Figure.Save(filepath.Join(f.out, part.Name+ext)); err != nil {
				return err
			}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	return page.SaveFile(filepath.Join(f.out, "results.json"), b.Bytes())
}

func (a *app) showBench(f *benchFlags, r *bench.Results) error {
	o := a.out
	parts, err := r.Parts()
	if err != nil {
		return err
	}
	o.Printf("%s\n%s\n", r.CPU, r.GPU)
	said := map[string]bool{}
	for _, p := range parts {
		o.Println()
		o.Println(o.Rule())
		o.Heading(p.Title)
		o.Println()
		a.benchTable(p.Table)
		o.Println()
		for _, s := range p.Seen {
			o.Text(s)
		}
		for _, n := range p.Notes {
			if said[n] {
				continue
			}
			said[n] = true
			o.Println()
			o.Text(o.Style(text.Yellow, "Note:") + " " + n)
		}
	}
	if note := r.Noise(); note != "" {
		o.Println()
		o.Text(o.Style(text.Yellow, "Note:") + " " + note + ".")
	}
	if f.out != "none" {
		o.Println()
		o.Println("Report: " + o.Style(text.Bold, filepath.Join(f.out, "report.html")))
	}
	return nil
}

// benchTable prints a table, with headings broken over two lines where it would
// not fit.
func (a *app) benchTable(p page.Table) {
	t := &text.Table{Head: p.Head, Rows: p.Rows, Right: map[int]bool{}, Shrink: -1}
	for i := p.Numbers; i < len(p.Head); i++ {
		t.Right[i] = true
	}
	width := 0
	for i, h := range p.Head {
		w := text.Len(h)
		for _, row := range p.Rows {
			w = max(w, text.Len(row[i]))
		}
		width += w + 2
	}
	if width <= a.out.Width {
		a.out.Table(t, 0)
		return
	}
	tall := 1
	heads := make([][]string, len(p.Head))
	for i, h := range p.Head {
		heads[i] = text.Wrap(h, 11)
		tall = max(tall, len(heads[i]))
	}
	rows := [][]string{}
	for line := range tall {
		row := make([]string, len(p.Head))
		for i, h := range heads {
			if at := line - (tall - len(h)); at >= 0 {
				row[i] = h[at]
			}
		}
		rows = append(rows, row)
	}
	t.Head = rows[0]
	for i := 1; i < tall; i++ {
		for j, c := range rows[i] {
			rows[i][j] = a.out.Style(text.Dim, c)
		}
	}
	t.Rows = append(rows[1:], p.Rows...)
	a.out.Table(t, 0)
}
