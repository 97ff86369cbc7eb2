package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/units"
)

// Multi tries what several devices or ranks do together: copies between the GPUs of this
// process, every collective, and how fast an all-reduce is. Ranks are those that a launcher
// started; without one, the GPUs of this process, or two ranks on the CPU. In a group of
// processes rank 0 returns all checks, the others only what is wrong.
func Multi(ctx context.Context) []Check {
	checks := peers()
	place, err := collective.FromEnv()
	if err != nil {
		return append(checks, problem("ranks", err))
	}
	if place.Size > 1 {
		return append(checks, ranks(ctx, place)...)
	}
	devices := locus.TryAllGPUs()
	if len(devices) < 2 {
		devices = []locus.Device{devices[0], devices[0]}
	}
	groups, err := collective.Local(devices, collective.Timeout(2*time.Minute))
	if err != nil {
		return append(checks, problem("ranks", err))
	}
	defer func() {
		for _, g := range groups {
			g.Close()
		}
	}()
	all := make([][]Check, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { all[i] = together(ctx, g, devices[i]) })
	}
	wg.Wait()
	checks = append(checks, all[0]...)
	for _, l := range all[1:] {
		checks = append(checks, onlyProblems(l)...)
	}
	if place.Launcher == "" {
		last := &checks[len(checks)-1]
		last.More = append(last.More, "for ranks in processes of their own: locus launch -n 2 locus doctor --multi")
	}
	return checks
}

func problem(name string, err error) Check {
	return Check{Name: name, Status: Problem, Found: err.Error()}
}

func onlyProblems(l []Check) []Check {
	return slices.DeleteFunc(l, func(c Check) bool { return c.Status != Problem })
}

// ranks is this process's part in a group of several.
func ranks(ctx context.Context, p collective.Place) []Check {
	g, err := collective.Join(ctx, collective.Timeout(2*time.Minute))
	if err != nil {
		return []Check{problem("ranks", err)}
	}
	defer g.Close()
	checks := together(ctx, g, p.Device())
	if g.Rank() != 0 {
		return onlyProblems(checks)
	}
	return checks
}

// together is a rank's part in trying collectives.
func together(ctx context.Context, g *collective.Group, d locus.Device) []Check {
	host, _ := os.Hostname() // a name for people
	name := fmt.Sprintf("rank %d of %d", g.Rank(), g.Size())
	if err := collectivetest.Run(ctx, g, collectivetest.Config{Devices: []locus.Device{d}, Short: true, Large: 50_001}); err != nil {
		return []Check{{Name: name, Status: Problem, Found: fmt.Sprintf("%s on %s, by %s: %v", d, host, g.Engine(d), err), Fix: "LOCUS_COLLECTIVE=ring does without MPI and NCCL; please report this if it helps"}}
	}
	checks := []Check{{Name: "collectives", Status: OK, Found: fmt.Sprintf("%d ranks by %s: every collective and type is right (%s, %s)", g.Size(), g.Engine(d), d, host)}}
	c := Check{Name: "all-reduce", Status: OK}
	for _, n := range []int{1 << 10, 1 << 18, 1 << 24} {
		best, err := fastest(ctx, g, d, n)
		if err != nil {
			return append(checks, problem(name, err))
		}
		size := int64(n) * 4
		line := fmt.Sprintf("%s in %v", units.Bytes(size), best.Round(time.Microsecond))
		if n == 1<<24 {
			// Each rank sends and receives 2(n-1)/n of the memory, whatever the algorithm.
			bus := float64(size) * 2 * float64(g.Size()-1) / float64(g.Size()) / best.Seconds() / 1e9
			line += fmt.Sprintf(": %.1f GB/s on each link", bus)
			c.Found = line
		} else {
			c.More = append(c.More, line)
		}
	}
	return append(checks, c)
}

// fastest returns the best time of an all-reduce of n float32 numbers.
func fastest(ctx context.Context, g *collective.Group, d locus.Device, n int) (time.Duration, error) {
	x := d.Ones(n)
	defer x.Free()
	best := time.Hour
	for range 5 {
		if err := d.Synchronize(); err != nil {
			return 0, err
		}
		if err := g.Barrier(ctx); err != nil {
			return 0, err
		}
		started := time.Now()
		y, err := g.AllReduce(ctx, x, collective.Sum).Wait()
		if err == nil {
			err = d.Synchronize()
		}
		if err != nil {
			return 0, err
		}
		best = min(best, time.Since(started))
		y.Free()
	}
	return best, nil
}

// peers copies between all pairs of GPUs and compares what arrives.
func peers() (checks []Check) {
	if locus.NumGPUs() < 2 {
		return nil
	}
	gpus := locus.TryAllGPUs()
	gpus = gpus[:min(len(gpus), 16)]
	c := Check{Name: "GPU to GPU", Status: OK}
	const n = 8 << 20
	var rates []float64
	for _, a := range gpus {
		for _, b := range gpus {
			if a == b {
				continue
			}
			var took time.Duration
			err := locus.Try(func() {
				locus.Scoped(func(s *locus.Scope) {
					x := s.Adopt(a.Arange(n).Cast(locus.Float32))
					for range 3 { // the first sets things up
						for _, d := range []locus.Device{a, b} {
							check(d.Synchronize())
						}
						started := time.Now()
						y := x.CopyTo(b)
						check(b.Synchronize())
						took = time.Since(started)
						if !slices.Equal(locus.ToSlice[float32](y), locus.ToSlice[float32](x)) {
							panic(&locus.Error{Kind: locus.ErrDevice, Op: "CopyTo", Msg: "what arrived is not what was sent"})
						}
					}
				})
			})
			if err != nil {
				c.Status, c.Fix = Problem, "see whether the cards' links and the IOMMU are set up (nvidia-smi topo -m)"
				c.Found = fmt.Sprintf("%s to %s: %v", a, b, err)
				return append(checks, c)
			}
			rate := float64(n) * 4 / took.Seconds() / 1e9
			rates = append(rates, rate)
			c.More = append(c.More, fmt.Sprintf("%s to %s: %.1f GB/s", a, b, rate))
		}
	}
	c.Found = fmt.Sprintf("copies between %d GPUs are right, %.1f to %.1f GB/s", len(gpus), slices.Min(rates), slices.Max(rates))
	return append(checks, c)
}

// check panics with an error of a device, which is a *locus.Error.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
