package cli

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/train"
)

// What --explain can be but for the name of a file.
const (
	explainShort = "short"
	explainFull  = "full"
)

// watchSteps makes a run keep what --explain and --profile ask for. The function that it
// returns tells it, when the run has ended: the progress is on the screen before.
func (a *app) watchSteps(f *trainFlags) (tell func() error) {
	var explanation, profile bytes.Buffer
	switch f.explain {
	case "":
	case explainShort:
		f.Summary = &explanation
	default:
		f.Explain = &explanation
	}
	if f.profile != "" {
		f.Profile = func(p train.Profiled) error {
			write := p.Timeline.WriteTrace
			if strings.EqualFold(filepath.Ext(f.profile), ".svg") {
				write = p.Timeline.WriteSVG
			}
			fmt.Fprintf(&profile, "%d steps, from step %d on: %s", p.Steps, p.First, p.Timeline)
			if p.Times != "" {
				fmt.Fprintf(&profile, "\n%s", p.Times)
			}
			fmt.Fprintf(&profile, "\ntrace in %s\n", f.profile)
			return disk.WriteFile(disk.OS, f.profile, write)
		}
	}
	return func() error {
		out := a.out
		if f.asJSON {
			out = a.err
		}
		if f.explain != "" && f.explain != explainShort && f.explain != explainFull {
			if err := disk.WriteFile(disk.OS, f.explain, func(w io.Writer) error { _, err := w.Write(explanation.Bytes()); return err }); err != nil {
				return err
			}
			explanation.Reset()
			fmt.Fprintf(&explanation, "explanation in %s\n", f.explain)
		}
		if f.profile != "" && profile.Len() == 0 {
			f.Note("no step was profiled: the run ended before")
		}
		for _, b := range []*bytes.Buffer{&explanation, &profile} {
			if b.Len() > 0 {
				out.Printf("\n%s", b)
			}
		}
		return nil
	}
}
