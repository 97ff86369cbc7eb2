package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/doctor"
	"github.com/locusml/locus/cmd/locus/internal/text"
)

func (a *app) doctor() *cobra.Command {
	var asJSON, verbose, multi bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what is installed, what is missing, and how to fix it",
		Long: `Looks for everything that Locus can use: processor, NVIDIA's cards, driver and
libraries, data, folders. Each device computes something whose result is known.
For everything that is missing it says what to do.

With --multi it tries what several GPUs or ranks do together: copies between
GPUs, every collective, and how fast an all-reduce is. Start it with locus
launch or mpirun to try ranks in processes of their own:

  locus launch -n 2 locus doctor --multi

The exit code is 1 only if something that is installed does not work.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var checks []doctor.Check
			if multi {
				checks = doctor.Multi(c.Context())
			} else {
				checks = doctor.Examine(doctor.Here(a.env))
			}
			bad := false
			for _, c := range checks {
				bad = bad || c.Status == doctor.Problem
			}
			if asJSON {
				if err := a.json(map[string]any{"build": buildInfo(), "checks": checks}); err != nil {
					return err
				}
			} else {
				a.showChecks(checks, verbose)
			}
			if bad {
				return errors.New("something that is installed does not work; see above")
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show every path that was tried")
	c.Flags().BoolVar(&multi, "multi", false, "try several GPUs or ranks together")
	jsonFlag(c, &asJSON)
	return c
}

func (a *app) showChecks(checks []doctor.Check, verbose bool) {
	o := a.out
	if len(checks) == 0 { // a rank that has nothing to complain of
		return
	}
	o.Printf("%s\n", version())
	styles := map[doctor.Status]text.Style{doctor.OK: text.Green, doctor.Missing: text.Dim, doctor.Warning: text.Yellow, doctor.Problem: text.Red}
	const indent = "                    "
	hidden := false
	for _, c := range checks {
		wrap := func(s string) []string {
			lines := text.Wrap(s, o.Width-len(indent)-3)
			for i, l := range lines { // a path has no blanks to break at
				lines[i] = text.CutMiddle(l, o.Width-len(indent)-3)
			}
			return lines
		}
		lines := wrap(c.Found)
		o.Println(o.Mark(styles[c.Status]) + " " + text.Pad(o.Style(text.Bold, c.Name), len(indent)) + " " + lines[0])
		for _, l := range lines[1:] {
			o.Println("   " + indent + l)
		}
		for i, m := range c.More {
			if i >= 3 && !verbose {
				hidden = true
				break
			}
			for _, l := range wrap(m) { // sentences, which say how to fix it at their end
				o.Println("   " + indent + o.Style(text.Dim, l))
			}
		}
		if c.Fix != "" {
			for i, l := range text.Wrap(c.Fix, o.Width-len(indent)-8) {
				label := "fix: "
				if i > 0 {
					label = "     "
				}
				o.Println("   " + indent + o.Style(text.Cyan, label) + l)
			}
		}
	}
	if hidden {
		o.Println()
		o.Text("locus doctor --verbose shows every path that was tried.")
	}
}
