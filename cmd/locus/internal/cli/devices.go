package cli

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/card"
	"github.com/locusml/locus/cmd/locus/internal/text"
)

func (a *app) devices() *cobra.Command {
	var watch, asJSON bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices: memory, load, temperature, what backs them",
		Long: `Shows every device that tensors can live on: the CPU, NVIDIA GPUs and virtual
ones, what does the work there, how full the memory is (by all processes, as far
as the device tells) and, where the driver's NVML library is installed, load,
temperature and power.`,
		Example: `  locus devices
  locus devices --watch --every 500ms
  locus devices --json | jq '.devices[].name'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("every") {
				watch = true
			}
			if every < 10*time.Millisecond {
				return usagef("--every %s: too often; at least 10ms", every)
			}
			switch {
			case watch:
				return a.watch(c.Context(), every, asJSON)
			case asJSON:
				return a.json(card.Look())
			}
			card.Look().Show(a.out)
			return nil
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "repeat until Ctrl-C")
	c.Flags().DurationVar(&every, "every", time.Second, "how often --watch looks")
	jsonFlag(c, &asJSON)
	return c
}

// watch shows the devices again and again: in place on a terminal, one after the
// other elsewhere, as a JSON object a line for programs.
func (a *app) watch(ctx context.Context, every time.Duration, asJSON bool) error {
	inPlace := a.out.Terminal && !asJSON
	if inPlace {
		a.out.Printf("\x1b[?25l\x1b[2J")
		defer a.out.Printf("\x1b[?25h")
	}
	for tick := time.NewTicker(every); ; {
		m := card.Look()
		switch {
		case asJSON:
			if err := json.NewEncoder(a.out).Encode(m); err != nil {
				return err
			}
		case inPlace:
			a.out.Printf("\x1b[H%s\x1b[J", frame(a.out, m))
		default:
			m.Show(a.out)
			a.out.Println()
		}
		if err := a.out.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// frame is one picture of the devices, each line wiped before it is written.
func frame(o *text.Out, m card.Machine) string {
	var b strings.Builder
	into := o.To(&b)
	into.Println(into.Style(text.Dim, time.Now().Format("15:04:05")+"  Ctrl-C ends"))
	into.Println()
	m.Show(into)
	return strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")
}
