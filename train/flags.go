package train

import (
	"flag"
	"io"
	"os"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Flags are the choices that a training program usually leaves to its user: what
// to learn, for how long, and where.
//
//	choices := train.NewFlags(flag.CommandLine, 10)
//	flag.Parse()
//	learn, test, err := choices.Open()
//	trainer := train.New(choices.Options(train.LearningRate(0.1))...)
type Flags struct {
	Data     string       // a name that [data.Open] knows
	Folder   string       // where its files are; "" looks where the system keeps them
	Epochs   int          // passes over the data
	Device   locus.Device // where to train
	GPUs     int          // if not 0, the number of GPUs to train on instead
	Progress io.Writer    // where to show a progress bar; nil for nowhere
}

// NewFlags adds -data, -folder, -epochs, -device and -gpus to a set of flags. The
// fields of the result have the user's choices once the set is parsed: without
// any, the embedded digits on the first GPU, or on the CPU where there is none.
func NewFlags(set *flag.FlagSet, epochs int) *Flags {
	f := &Flags{Progress: os.Stderr}
	set.StringVar(&f.Data, "data", "digits", "what to learn: "+strings.Join(data.Names(), ", "))
	set.StringVar(&f.Folder, "folder", "", "the `folder` of the data's files, if not where the system keeps them")
	set.IntVar(&f.Epochs, "epochs", epochs, "passes over the data")
	set.TextVar(&f.Device, "device", locus.TryGPU(), "where to train: cpu, gpu:0, …")
	set.IntVar(&f.GPUs, "gpus", 0, "train on the first `N` GPUs, instead of on -device")
	return f
}

// Open returns the training and the test data.
func (f *Flags) Open() (train, test *data.Classified, err error) {
	if f == nil {
		f = &Flags{}
	}
	return data.Open(f.Data, data.Source{Folder: f.Folder})
}

// Options returns the choices as options of a trainer, in front of more.
func (f *Flags) Options(more ...Option) []Option {
	if f == nil {
		f = &Flags{Epochs: 1}
	}
	place := Devices(f.Device)
	if f.GPUs > 0 {
		place = NumGPUs(f.GPUs)
	}
	return append([]Option{MaxEpochs(f.Epochs), place, Progress(f.Progress)}, more...)
}
