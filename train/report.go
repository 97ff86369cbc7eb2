package train

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/units"
)

// Step is what a callback is passed before or after a step. Reading a tensor here
// waits for the device.
type Step struct {
	Epoch, Index int
	Steps        int64   // taken so far
	LR           float64 // of this step
	Models       []Model // the replicas, one per device; the first is the model itself
}

// Epoch is the record of one pass over the data.
type Epoch struct {
	Number     int                    // from 0
	Train      map[string]float64     // means over the epoch, as it went
	Validation map[string]float64     // after it
	Tables     map[string][][]float64 `json:",omitempty"` // of Measure, such as a confusion matrix, on the validation data
	LR         float64                // of its last step
	Examples   int
	Time       time.Duration // of training, without validation
	Best       bool          // the best so far by the monitored metric
}

// Report is the record of a run. A nil Report is one of no epochs.
type Report struct {
	Epochs     []Epoch
	Steps      int64
	Devices    []locus.Device
	Time       time.Duration
	PeakMemory map[string]int64 // bytes, by device
	Stopped    string           // why it ended before its last epoch; "" if it did not
	BestEpoch  int              // -1 without validation data
	Parameters int
	Uncompiled string // why steps were computed as they are written, though they were to be compiled; "" if none were

	Hyperparameters Hyperparameters
}

// Last returns the last epoch's record.
func (r *Report) Last() Epoch {
	if r == nil || len(r.Epochs) == 0 {
		return Epoch{}
	}
	return r.Epochs[len(r.Epochs)-1]
}

// Throughput is the number of examples trained on per second.
func (r *Report) Throughput() float64 {
	var n int
	var d time.Duration
	if r == nil {
		return 0
	}
	for _, e := range r.Epochs {
		n += e.Examples
		d += e.Time
	}
	if d == 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// String returns a table of the epochs and a summary.
func (r *Report) String() string {
	if r == nil {
		return "no report"
	}
	var b strings.Builder
	for _, e := range r.Epochs {
		fmt.Fprintf(&b, "epoch %3d  %s", e.Number+1, metricsLine("", e.Train))
		if len(e.Validation) > 0 {
			fmt.Fprintf(&b, "  %s", metricsLine("validation ", e.Validation))
		}
		fmt.Fprintf(&b, "  %.0f examples/s", float64(e.Examples)/e.Time.Seconds())
		if e.Best {
			b.WriteString("  *")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d parameters, %d steps on %v in %s, %.0f examples/s", r.Parameters, r.Steps, r.Devices, r.Time.Round(time.Millisecond), r.Throughput())
	for _, d := range slices.Sorted(maps.Keys(r.PeakMemory)) {
		fmt.Fprintf(&b, ", peak %s on %s", units.Bytes(r.PeakMemory[d]), d)
	}
	if r.Stopped != "" {
		b.WriteString("; stopped: " + r.Stopped)
	}
	if r.Uncompiled != "" {
		b.WriteString("; not compiled: " + r.Uncompiled)
	}
	b.WriteByte('\n')
	return b.String()
}

func metricsLine(prefix string, m map[string]float64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s%s %.4f", prefix, k, m[k]))
	}
	return strings.Join(parts, "  ")
}
