// Command logging shows what it costs to look at a loss. Reading a number from a
// GPU makes the program wait until the GPU has caught up, so that a loop that reads
// its loss in every step never lets the GPU work ahead. Losses that stay on the
// device cost nothing, and can be read all at once in the end.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func main() {
	if err := run(os.Stdout, 1000); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, steps int) error {
	if locus.NumGPUs() == 0 {
		fmt.Fprint(w, "no GPU found; adding a virtual one. Its waits are short, but it counts them all the same.\n\n")
		locus.AddVirtualGPUs(1, 256<<20)
	}
	gpu := locus.GPU(0)
	for _, way := range []struct {
		name string
		fit  func(gpu locus.Device, steps int) []float64
	}{
		{"the loss is read in every step", readEveryStep},
		{"losses stay on the device and are read in the end", readInTheEnd},
	} {
		locus.ResetLedger()
		start := time.Now()
		losses := way.fit(gpu, steps)
		if err := gpu.Synchronize(); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %d steps in %v, the loss went from %.4f to %.4f\n", way.name, steps, time.Since(start).Round(time.Millisecond), losses[0], losses[len(losses)-1])
		fmt.Fprintln(w, locus.Ledger())
	}
	return nil
}

func readEveryStep(gpu locus.Device, steps int) (losses []float64) {
	t := newTask(gpu)
	for range steps {
		locus.Scoped(func(s *locus.Scope) {
			losses = append(losses, t.step(s).Item()) // waits
		})
	}
	return losses
}

func readInTheEnd(gpu locus.Device, steps int) []float64 {
	t := newTask(gpu)
	var kept []*locus.Tensor
	for range steps {
		locus.Scoped(func(s *locus.Scope) {
			kept = append(kept, s.Keep(t.step(s))) // does not
		})
	}
	return locus.ToSlice[float64](locus.Stack(0, kept...).Cast(locus.Float64))
}

// task is something small to learn: the sum of 20 numbers.
type task struct {
	net    *nn.SequentialLayer
	params []nn.Entry
	opt    *optim.Optimizer
	x, y   *locus.Tensor
}

func newTask(gpu locus.Device) *task {
	t := &task{net: nn.Sequential(nn.LazyLinear(64, nn.WithKey(locus.NewKey(1))), nn.Tanh(), nn.LazyLinear(1, nn.WithKey(locus.NewKey(2))))}
	t.x = gpu.Key(locus.NewKey(3)).Rand(64, 20)
	t.y = t.x.SumKeep(1)
	t.net.Forward(t.x) // lazy layers make their parameters, where x is
	t.params = nn.Parameters(t.net)
	t.opt = optim.SGD(t.params, 0.01, optim.SGDOptions{})
	return t
}

// step takes one and returns its loss, which is on the device and may not even be
// computed yet.
func (t *task) step(s *locus.Scope) *locus.Tensor {
	loss := locus.MSELoss(t.net.Forward(s.Use(t.x)), t.y, locus.ReduceMean)
	t.opt.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(t.params)))
	return loss.Detach()
}
