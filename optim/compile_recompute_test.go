package optim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// TestRecomputedArenas computes what steps of larger networks need with and without
// recomputation, by their plans, as TestPlannedArenas does.
func TestRecomputedArenas(t *testing.T) {
	for _, c := range []struct {
		name   string
		net    func() nn.Module
		batch  []int
		labels int
		most   float64 // of what it takes without
	}{
		{"ResNet-18", resNet18, []int{128, 3, 96, 96}, 128, 0.9},
		{"transformer", transformer6, []int{8, 256, 512}, 8 * 256, 0.9},
	} {
		var arenas [2]int
		for i := range arenas {
			d := locus.AddVirtualGPUs(1, 100<<20)[0]
			m := nn.To(c.net(), d)
			o := SGD(nn.Parameters(m), 0.1, SGDOptions{})
			step := locus.Compile(byBackward(o, func(x, y *locus.Tensor) *locus.Tensor {
				out := m.Forward(x)
				return locus.CrossEntropy(out.Reshape(-1, out.Dim(-1)), y, locus.CrossEntropyOptions{})
			}))
			if i == 1 {
				step.Recompute()
			}
			x, y := d.Zeros(c.batch...), d.Zeros(c.labels).Cast(locus.Int64)
			if err := locus.Try(func() { step.Call(x, y) }); !errors.Is(err, locus.ErrOutOfMemory) {
				t.Fatalf("%s: %v", c.name, err)
			}
			text := step.Explain()
			_, line, _ := strings.Cut(text, "an arena of ")
			if _, err := fmt.Sscan(line, &arenas[i]); err != nil {
				t.Fatal(err)
			}
			if _, line, found := strings.Cut(text, "recomputation: "); found {
				line, _, _ = strings.Cut(line, "\n")
				t.Logf("%s: %s", c.name, line)
			} else if i == 1 {
				t.Errorf("%s: the explanation says nothing of it", c.name)
			}
		}
		t.Logf("%s: an arena of %.1f MiB, without recomputation %.1f", c.name, float64(arenas[1])/(1<<20), float64(arenas[0])/(1<<20))
		if float64(arenas[1]) > c.most*float64(arenas[0]) {
			t.Errorf("%s: %d bytes of %d; want at most %v of it", c.name, arenas[1], arenas[0], c.most)
		}
	}
}

// TestRecompute: with and without recomputation, steps of networks compute the same to
// the bit, eager too, and the peak of memory falls.
func TestRecompute(t *testing.T) {
	for name, c := range map[string]struct {
		net    func() nn.Module
		batch  []int
		labels int
	}{
		"convolutions": {func() nn.Module {
			conv := func(in, out int) []nn.Module {
				return []nn.Module{nn.Conv2D(in, out, 3, locus.ConvOptions{Padding: 1}, nn.NoBias()), nn.BatchNorm(out), nn.ReLU6()}
			}
			var l []nn.Module
			for i := range 5 {
				l = append(l, conv([]int{3, 8, 8, 8, 8}[i], 8)...)
			}
			return nn.Sequential(append(l, nn.GlobalAvgPool(), nn.Linear(8, 10))...)
		}, []int{4, 3, 16, 16}, 4},
		"transformer": {func() nn.Module {
			return nn.Sequential(nn.TransformerEncoder(3, 32, 4, nn.TransformerOptions{Hidden: 128, PreNorm: true, Activation: locus.GeluActivation, Dropout: 0.1}), nn.Linear(32, 10))
		}, []int{8, 64, 32}, 512},
	} {
		for _, gpu := range []bool{false, true} {
			run := func(compile, recompute bool) (losses []float64, peak int64) {
				d := locus.CPU()
				if gpu { // of its own: nothing of another run counts
					d = locus.AddVirtualGPUs(1, 64<<20)[0]
				}
				locus.Seed(7)
				m := nn.To(nn.Train(c.net()), d)
				o := AdamW(nn.Parameters(m), 1e-2, AdamOptions{})
				step := byBackward(o, func(x, y *locus.Tensor) *locus.Tensor {
					out := m.Forward(x)
					return locus.CrossEntropy(out.Reshape(-1, out.Dim(-1)), y, locus.CrossEntropyOptions{})
				})
				if compile {
					program := locus.Compile(step)
					if recompute {
						program.Recompute()
					}
					step = program.Call
				}
				x, y := d.Randn(c.batch...), d.Randint(0, 10, c.labels)
				for i := range 6 {
					if i == 5 {
						d.Collect()
						d.FreeCache()
						d.ResetPeak()
					}
					losses = append(losses, step(x, y)[0].Item())
				}
				return losses, d.MemoryStats().Peak
			}
			eager, _ := run(false, false)
			kept, most := run(true, false)
			again, less := run(true, true)
			for i := range eager {
				if eager[i] != kept[i] || eager[i] != again[i] {
					t.Fatalf("%s, on a GPU: %v: losses %v, compiled %v, recomputed %v", name, gpu, eager, kept, again)
				}
			}
			t.Logf("%s, on a GPU: %v: %d bytes at most, without recomputation %d", name, gpu, less, most)
			if gpu && less >= most {
				t.Errorf("%s: the peak is %d bytes, without recomputation %d", name, less, most)
			}
		}
	}
}
