// Package bench measures what every user of a GPU should have measured once: when
// it pays, what moving data costs, what a wait costs, whether two cards are twice as
// fast as one, and whether copies hide behind computing.
package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/locusml/locus"
)

// Names lists the exercises in order.
var Names = []string{"products", "parameters", "log", "parallel", "overlap"}

// About says what each exercise asks.
var About = map[string]string{
	"products":   "matrix products on the CPU and on a GPU: from which size on does the GPU pay?",
	"parameters": "reading and writing a network's parameters on a device: what does it cost?",
	"log":        "1000 products of 100×100 matrices: the norm read each time, against a log kept on the device",
	"parallel":   "two products on two GPUs at once, against one after the other on one",
	"overlap":    "products on a GPU while data is copied to it, against the one after the other",
}

// Options say what is measured and for how long.
type Options struct {
	Which   []string      // exercises; nil: all
	GPU     *locus.Device // nil: the first, a virtual one if there is none
	Sizes   []int         // of the square matrices of products and parallel; nil: some that suit the device
	Budget  time.Duration // for each figure; 0: 200 ms
	Began   func(exercise string)
	Virtual int64 // bytes of memory of each virtual GPU that is added; 0: 1 GiB
}

// Device is a device that was measured.
type Device struct {
	Device  locus.Device `json:"device"`
	Name    string       `json:"name"`
	Backing string       `json:"backing"`
	Virtual bool         `json:"virtual"`
}

// Timing is what several runs of the same thing took, in seconds.
type Timing struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// Duration is the median.
func (t Timing) Duration() time.Duration { return time.Duration(t.Median * float64(time.Second)) }

// Results is all that was measured.
type Results struct {
	Time       time.Time   `json:"time"`
	CPU        Device      `json:"cpu"`
	GPU        Device      `json:"gpu"`
	Pair       [2]Device   `json:"pair"` // for what needs two GPUs
	Products   *Products   `json:"products,omitempty"`
	Parameters *Parameters `json:"parameters,omitempty"`
	Log        *Log        `json:"log,omitempty"`
	Parallel   *Parallel   `json:"parallel,omitempty"`
	Overlap    *Overlap    `json:"overlap,omitempty"`
	// Spread is how far runs of the same thing lay apart at most: the upper
	// quartile over the lower.
	Spread float64 `json:"spread"`
}

// meter is one call of Run.
type meter struct {
	Options
	ctx context.Context
	*Results
}

// Run measures. Where there are no real GPUs, virtual ones are added; Results say
// so.
func Run(ctx context.Context, o Options) (*Results, error) {
	if o.Budget <= 0 {
		o.Budget = 200 * time.Millisecond
	}
	if o.Which == nil {
		o.Which = Names
	}
	for _, w := range o.Which {
		if !slices.Contains(Names, w) {
			return nil, fmt.Errorf("there is no exercise %q", w)
		}
	}
	m := &meter{o, ctx, &Results{Time: time.Now().Round(time.Second)}}
	m.choose()
	for _, e := range []struct {
		name string
		run  func() error
	}{{"products", m.products}, {"parameters", m.parameters}, {"log", m.log}, {"parallel", m.parallel}, {"overlap", m.overlap}} {
		if !slices.Contains(o.Which, e.name) {
			continue
		}
		if o.Began != nil {
			o.Began(e.name)
		}
		var err error
		if failed := locus.Try(func() { err = e.run() }); failed != nil {
			err = failed
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		for _, i := range locus.Devices() { // an exercise leaves nothing to the next
			i.Device.Collect()
			i.Device.FreeCache()
		}
	}
	return m.Results, nil
}

// choose finds the devices: the GPU, and a pair of the same kind.
func (m *meter) choose() {
	var reals, virtuals []locus.Device
	for _, i := range locus.Devices()[1:] {
		if i.Device.Details().Virtual {
			virtuals = append(virtuals, i.Device)
		} else {
			reals = append(reals, i.Device)
		}
	}
	pair := reals
	if len(reals) < 2 {
		virtuals = append(virtuals, locus.AddVirtualGPUs(max(0, 2-len(virtuals)), m.Virtual)...)
		pair = virtuals
	}
	gpu := append(reals, virtuals...)[0]
	if m.Options.GPU != nil {
		gpu = *m.Options.GPU
	}
	m.CPU, m.Results.GPU = describe(locus.CPU()), describe(gpu)
	m.Pair = [2]Device{describe(pair[0]), describe(pair[1])}
}

func describe(d locus.Device) Device {
	for _, i := range locus.Devices() {
		if i.Device == d {
			return Device{d, i.Name, i.Backing, d.Details().Virtual}
		}
	}
	return Device{Device: d}
}

// time measures one thing: see compare.
func (m *meter) time(f func(s *locus.Scope)) (Timing, error) {
	t, err := m.compare(f)
	if err != nil {
		return Timing{}, err
	}
	return t[0], nil
}

// compare runs things in turn, again and again for the budget, so that whatever
// else the machine does hits them alike. First runs do not count: they load
// kernels and fill caches. What is computed from tensors of the scope is freed
// after each run.
func (m *meter) compare(fs ...func(s *locus.Scope)) ([]Timing, error) {
	const least, most = 3, 200
	once := func(f func(*locus.Scope)) (float64, error) {
		if m.ctx.Err() != nil {
			return 0, context.Cause(m.ctx)
		}
		s := locus.NewScope()
		defer s.Close()
		start := time.Now()
		f(s)
		return time.Since(start).Seconds(), nil
	}
	runs := make([][]float64, len(fs))
	end := time.Now().Add(m.Budget * time.Duration(len(fs)))
	for round := 0; round <= least || round <= most && time.Now().Before(end); round++ {
		for i, f := range fs {
			t, err := once(f)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				runs[i] = append(runs[i], t)
			}
		}
	}
	timings := make([]Timing, len(fs))
	for i, r := range runs {
		slices.Sort(r)
		timings[i] = Timing{r[len(r)/2], r[0], r[len(r)-1], len(r)}
		m.Spread = max(m.Spread, r[len(r)*3/4]/r[len(r)/4])
	}
	return timings, nil
}

// wait waits for devices; failures of queued work surface here.
func wait(devices ...locus.Device) {
	for _, d := range devices {
		if err := d.Synchronize(); err != nil {
			panic(err)
		}
	}
}

// per divides a timing.
func (t Timing) per(n int) Timing {
	k := float64(n)
	return Timing{t.Median / k, t.Min / k, t.Max / k, t.Runs}
}
