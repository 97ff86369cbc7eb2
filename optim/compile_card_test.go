package optim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/nn"
)

// cards lists the real GPUs.
func cards() []locus.Device {
	var l []locus.Device
	for _, d := range locus.Devices() {
		if d.Device.IsGPU() && !strings.HasPrefix(d.Name, "virtual") {
			l = append(l, d.Device)
		}
	}
	return l
}

func oneCard(t testing.TB) locus.Device {
	l := cards()
	if len(l) == 0 {
		t.Skip("there is no GPU:", locus.WhyNoGPU())
	}
	return l[0]
}

// summary is what a compiled function says of its programs, without their steps.
func summary(c *locus.Compiled) string {
	var b strings.Builder
	for _, line := range strings.Split(c.Explain(), "\n") {
		for _, want := range []string{"signature ", "  memory: ", "recorded", "is not written over", "without an arena"} {
			if strings.Contains(line, want) {
				fmt.Fprintln(&b, line)
				break
			}
		}
	}
	return b.String()
}

// TestPlannedOnCard trains networks on a real GPU, in all modes, and compares with eager
// training, to the bit.
func TestPlannedOnCard(t *testing.T) {
	d := oneCard(t)
	for _, mode := range []program.Mode{program.Default, program.InPlan, program.Best} {
		for name, n := range nets {
			t.Run(fmt.Sprint(mode, " ", name), func(t *testing.T) {
				defer program.SetMode(program.SetMode(mode))
				f := compareTraining(t, d, func() compared {
					m, loss := n.build()
					o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
					return compared{net: m, opt: o, step: byBackward(o, loss)}
				}, classes(d, n.batch, 5), 12, nil)
				compiledNow(t, f)
				if mode == program.Best {
					t.Log(summary(f))
				}
			})
		}
	}
}

// TestPlannedPeakOnCard says what a step takes there, and that replays leave nothing.
func TestPlannedPeakOnCard(t *testing.T) {
	d := oneCard(t)
	step, args := plannedMLP(d)
	before := d.MemoryStats()
	for range 10 {
		step.Call(args...)
	}
	if err := d.Synchronize(); err != nil {
		t.Fatal(err)
	}
	d.Collect()
	d.FreeCache()
	d.ResetPeak()
	early := d.MemoryStats()
	for range 5000 {
		step.Call(args...)
	}
	if err := d.Synchronize(); err != nil {
		t.Fatal(err)
	}
	d.Collect()
	late := d.MemoryStats()
	t.Logf("before %s\nearly %s\nlate %s\n%s", before, early, late, summary(step))
	if late.InUse > early.InUse+8<<20 || !strings.Contains(step.Explain(), "  recorded: ") {
		t.Errorf("memory grew, or the step is not recorded")
	}
}
