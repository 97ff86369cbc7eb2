package collective_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// A NaN of any rank is a NaN on all, by every op.
func TestNaN(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(3)
		each(t, 3, func(r int) error {
			for who := range 3 {
				for _, op := range []collective.Op{collective.Sum, collective.Mean, collective.Max, collective.Min, collective.Product} {
					x := []float32{1, 2, 3, 4}
					if r == who {
						x[who] = float32(math.NaN())
					}
					y, err := groups[r].AllReduce(ctx, locus.From(x), op).Wait()
					if err != nil {
						return err
					}
					for i, v := range locus.ToSlice[float32](y) {
						if (v != v) != (i == who) {
							return fmt.Errorf("%s with a NaN at %d is %v at %d", op, who, v, i)
						}
					}
				}
			}
			return nil
		})
	})
}

// Collectives whose results are freed leave nothing behind on the device.
func TestNothingIsLeft(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 64<<20)[0]
	for name, groups := range map[string][]*collective.Group{"local": local(t, []locus.Device{d, d}), "ring": tcp(t, 2)} {
		use := func(times int) {
			each(t, 2, func(r int) error {
				g := groups[r]
				x := d.Ones(100, 100)
				defer x.Free()
				for range times {
					for _, p := range []*collective.Pending{g.AllReduce(ctx, x, collective.Mean), g.AllGather(ctx, x), g.ReduceScatter(ctx, x.T(), collective.Max), g.Broadcast(ctx, x, 1), g.Reduce(ctx, x, collective.Sum, 0)} {
						y, err := p.Wait()
						if err != nil {
							return err
						}
						if y != nil {
							y.Free()
						}
					}
				}
				return nil
			})
		}
		use(1)
		runtime.GC()
		before := d.MemoryStats().InUse
		use(50)
		if after := d.MemoryStats().InUse; after > before {
			t.Errorf("%s: %d bytes in use, %d before", name, after, before)
		}
	}
}
