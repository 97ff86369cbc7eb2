package cli

import (
	"io"
	"time"

	"github.com/locusml/locus/cmd/locus/internal/job"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/train"
)

// nothing is where unwanted output goes.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// progress is where progress bars of something short go: the terminal, or nowhere.
func (a *app) progress() io.Writer {
	if a.err.Terminal {
		return a.rawErr
	}
	return nothing{}
}

// lineEvery is the time between two lines of progress: a run of very many epochs
// must not fill a log.
const lineEvery = time.Second

// epochLines prints a line after an epoch, for a file or a pipe, where a bar
// cannot be painted over. The table at the end has all epochs.
func (a *app) epochLines(epochs int) func(train.Epoch) {
	last := time.Now()
	return func(e train.Epoch) {
		if time.Since(last) < a.lineEvery {
			return
		}
		last = time.Now()
		a.err.Printf("epoch %d of %d: loss %.4f, %[4]s %[5]s, test loss %.4[6]f, test %[4]s %[7]s, %[8]s\n", e.Number+1, epochs,
			e.Train["loss"], job.QualityName(e.Train), job.Quality(e.Train), e.Validation["loss"], job.Quality(e.Validation), text.Duration(e.Time))
	}
}
