package cli

import (
	"io"
)

// nothing is where output goes that nobody wants.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// progress is where progress bars go: the terminal, or nowhere, since lines in a
// file would mix with the report.
func (a *app) progress() io.Writer {
	if a.err.Terminal {
		return a.rawErr
	}
	return nothing{}
}
