package collective

import (
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// RunLocal runs f as every rank of a group that [Local] makes, a goroutine per rank, and
// closes the group when all have returned. f gets the rank's handle and its device. If f
// returns an error or panics with a *locus.Error on a rank, the others do not wait for
// that rank: what they wait for fails. RunLocal returns the error that came first.
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
		once  sync.Once
		first error
	)
	for i, g := range groups {
		all.Go(func() {
			var err error
			if failed := locus.Try(func() { err = f(g, devices[i]) }); failed != nil {
				err = failed
			}
			if err != nil {
				once.Do(func() { first = err })
				g.Abort(err)
			}
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
