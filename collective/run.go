package collective

import (
	"errors"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/guard"
)

// RunLocal runs f as every rank of a group that [Local] makes, a goroutine per rank, and
// closes the group when all have returned. f gets the rank's handle and its device. If f
// returns an error or panics on a rank, the others do not wait for that rank: what they wait
// for fails. RunLocal returns the error that came first, but prefers a rank's own to those
// that tell of another rank ([ErrRank]).
//
//	err := collective.RunLocal(gpus, func(g *collective.Group, d locus.Device) error {
//		sum, err := g.AllReduce(ctx, gradient(d), collective.Sum).Wait()
//		…
//	})
func RunLocal(devices []locus.Device, f func(g *Group, d locus.Device) error, options ...Option) error {
	if err := gate.Given("the function", f); err != nil {
		return newError("RunLocal", err)
	}
	groups, err := Local(devices, options...)
	if err != nil {
		return err
	}
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for i, g := range groups {
		all.Add(1)
		go guard.Go(func() error { return f(g, devices[i]) }, func(err error) {
			defer all.Done()
			if err == nil {
				return
			}
			mu.Lock()
			if first == nil || errors.Is(first, ErrRank) && !errors.Is(err, ErrRank) {
				first = err
			}
			mu.Unlock()
			g.Abort(err)
		})
	}
	all.Wait()
	for _, g := range groups {
		if err := g.Close(); first == nil {
			first = err
		}
	}
	return first
}
