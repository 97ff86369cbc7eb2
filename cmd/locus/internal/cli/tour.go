package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/cmd/locus/internal/tour"
)

func (a *app) tour() *cobra.Command {
	var asJSON, wait bool
	c := &cobra.Command{
		Use:   "tour",
		Short: "Take a tour of the framework on this machine",
		Long: `Runs a program step by step on the devices of this machine and shows the Go
code of each step next to its output: devices and their names, tensors on
GPUs, what happens when two devices meet, copies and their cost, networks on a
GPU, and training on two of them.

Real GPUs are used where there are any; where there are fewer than two, virtual
ones that live in main memory take their place.`,
		Example: `  locus tour
  locus tour --wait        press Enter for the next step`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runTour(c.Context(), asJSON, wait) },
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait for Enter after each step")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) runTour(ctx context.Context, asJSON, wait bool) error {
	start := time.Now()
	real := locus.NumGPUs()
	added := tour.Prepare()
	if asJSON {
		var steps []tour.Step
		err := tour.Run(ctx, a.err.To(nothing{}), func(_ int, s tour.Step) error {
			steps = append(steps, s)
			return nil
		})
		if err != nil {
			return err
		}
		return a.json(map[string]any{"virtual_gpus_added": added, "steps": steps})
	}
	a.out.Heading("A tour of Locus: every tensor has a place")
	if added > 0 {
		a.out.Text(fmt.Sprintf("This machine has %s; the tour adds %s that live in main memory.", text.Many(real, "GPU"), text.Many(added, "virtual one")))
	}
	in := bufio.NewReader(a.in)
	err := tour.Run(ctx, a.progress(), func(n int, s tour.Step) error {
		a.showStep(n, s)
		if wait && n < tour.Len() {
			a.err.Printf("%s ", a.err.Style(text.Dim, "Enter for the next step, Ctrl-C to end"))
			return waitForEnter(ctx, in)
		}
		return a.out.Err()
	})
	if err != nil {
		return err
	}
	a.out.Println()
	a.out.Println(a.out.Rule())
	a.out.Text(fmt.Sprintf("That was the tour, in %s. Next:", text.Duration(time.Since(start))))
	a.out.Println()
	for _, l := range [][2]string{
		{"locus train", "train a network on the digits and keep it"},
		{"locus bench", "how fast the devices are, what moving costs"},
		{"locus devices --watch", "what the devices are doing"},
	} {
		a.out.Println("  " + text.Pad(a.out.Style(text.Bold, l[0]), 24) + l[1])
	}
	return nil
}

// sideBySide is the number of columns from which code and output stand next to
// each other.
const sideBySide = 150

func (a *app) showStep(n int, s tour.Step) {
	o := a.out
	o.Println()
	o.Println(o.Rule())
	o.Println(o.Style(text.Bold, fmt.Sprintf("%d/%d  %s", n, tour.Len(), s.Title)))
	o.Text(s.Text)
	o.Println()
	code, output := strings.Split(s.Code, "\n"), strings.Split(s.Output, "\n")
	if o.Width >= sideBySide {
		left := 40
		for _, l := range code {
			left = min(78, max(left, text.Len(l)))
		}
		o.Beside(o.Code(text.Fold(code, left)), text.Fold(output, o.Width-left-3), left)
		return
	}
	for _, l := range o.Code(text.Fold(code, o.Width-2)) {
		o.Println("  " + l)
	}
	o.Println()
	mark := "→ "
	if !o.Unicode {
		mark = "> "
	}
	for i, l := range text.Fold(output, o.Width-4) {
		if i > 0 {
			mark = "  "
		}
		o.Println("  " + o.Style(text.Cyan, mark) + l)
	}
}

// waitForEnter waits for a line of input, its end, or an interrupt.
func waitForEnter(ctx context.Context, in *bufio.Reader) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = in.ReadString('\n') // the end of the input is an answer, too
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
