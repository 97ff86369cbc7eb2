// Command hybridize runs the same functions twice: as Go code that calls one op after
// the other, and compiled to a program by locus.Compile. It prints what each takes
// and checks that both give the same bits.
//
// Go code is easy to write, to debug and to change; a program needs no checks, no
// handles and no graph, its memory is planned, and steps that work element by element
// are one pass. Compiling changes one line, so there is no need to choose beforehand.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func main() {
	if err := run(os.Stdout, locus.TryGPU(), 300); err != nil {
		log.Fatal(err)
	}
}

// task is a function with its arguments.
type task struct {
	name string
	f    func(args ...*locus.Tensor) []*locus.Tensor
	args []*locus.Tensor
}

func run(w io.Writer, device locus.Device, calls int) error {
	fmt.Fprintf(w, "on %s, the median of %d calls each\n\n%-34s %10s %10s %8s\n", device, calls, "", "Go code", "compiled", "faster")
	// Each way has tasks of its own, from the same first values: a training step
	// changes its network.
	plain, compiled := tasks(device), tasks(device)
	for i, t := range plain {
		c := locus.Compile(compiled[i].f)
		var slow, fast []time.Duration
		for range calls { // in turn, so that whatever else the machine does hits both
			a, da, err := timed(device, func() []*locus.Tensor { return t.f(t.args...) })
			if err != nil {
				return err
			}
			b, db, err := timed(device, func() []*locus.Tensor { return c.Call(compiled[i].args...) })
			if err != nil {
				return err
			}
			if !slices.Equal(locus.ToSlice[float32](a[0]), locus.ToSlice[float32](b[0])) {
				return fmt.Errorf("%s: the compiled function returns other numbers", t.name)
			}
			slow, fast = append(slow, da), append(fast, db)
		}
		if why := c.Fallback(); why != "" {
			return fmt.Errorf("%s was not compiled: %s", t.name, why)
		}
		s, f := median(slow), median(fast)
		fmt.Fprintf(w, "%-34s %10s %10s %7.1f×\n", t.name, s.Round(100*time.Nanosecond), f.Round(100*time.Nanosecond), s.Seconds()/f.Seconds())
	}
	fmt.Fprintln(w, "\nall results were equal to the bit")
	return nil
}

func tasks(d locus.Device) []task {
	key := locus.NewKey(0).Split(3)
	net := func() *nn.SequentialLayer {
		l := func(i uint64, in, out int) nn.Module { return nn.Linear(in, out, nn.WithKey(locus.NewKey(i))) }
		return nn.Sequential(l(1, 512, 256), nn.ReLU(), l(2, 256, 128), nn.ReLU(), l(3, 128, 2)).To(d)
	}
	use, learn := net(), net()
	opt := optim.Adam(nn.Parameters(learn), 0.001, optim.AdamOptions{})
	one := d.Key(key[0]).Randn(1, 512)
	x, y := d.Key(key[1]).Randn(16, 512), d.Key(key[2]).Randint(0, 2, 16)
	wave := d.Key(key[0]).Rand(1 << 20)
	return []task{
		{"an MLP on one example", func(a ...*locus.Tensor) []*locus.Tensor {
			return []*locus.Tensor{use.Forward(a[0]).Detach()}
		}, []*locus.Tensor{one}},
		{"a training step, 16 examples", func(a ...*locus.Tensor) []*locus.Tensor {
			loss := locus.CrossEntropy(learn.Forward(a[0]), a[1], locus.CrossEntropyOptions{})
			loss.Backward()
			opt.Step()
			return []*locus.Tensor{loss.Detach()}
		}, []*locus.Tensor{x, y}},
		{"(z+2).exp()*z - z, a million", func(a ...*locus.Tensor) []*locus.Tensor {
			z := a[0]
			return []*locus.Tensor{z.Add(2).Exp().Mul(z).Sub(z)}
		}, []*locus.Tensor{wave}},
	}
}

// timed calls f and waits for the device.
func timed(d locus.Device, f func() []*locus.Tensor) ([]*locus.Tensor, time.Duration, error) {
	start := time.Now()
	r := f()
	err := d.Synchronize()
	return r, time.Since(start), err
}

func median(l []time.Duration) time.Duration {
	slices.Sort(l)
	return l[len(l)/2]
}
