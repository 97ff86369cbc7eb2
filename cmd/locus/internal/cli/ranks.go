package cli

import (
	"context"
	"errors"
	"io"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/agree"
)

// join makes this process one of the ranks that a launcher started, if one did. The caller
// closes the group that f has then.
func (f *trainFlags) join(ctx context.Context) error {
	place, err := collective.FromEnv()
	if err != nil || place.Size < 2 {
		return err
	}
	if f.Group, err = collective.Join(ctx, collective.At(place)); err != nil {
		return err
	}
	f.place = place
	return f.sameFolder(ctx)
}

// leave closes the group, if there is one. The others learn why a rank failed.
func (f *trainFlags) leave(err error) error {
	if f.Group == nil {
		return nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		f.Group.Abort(err)
	}
	return f.Group.Close()
}

// sameFolder makes the folder that rank 0 chooses that of all ranks: which names are free
// changes when the first rank writes.
func (f *trainFlags) sameFolder(ctx context.Context) error {
	if f.out != "" {
		return nil
	}
	given := *f
	if err := given.folders(); err != nil {
		return err
	}
	all, err := agree.Bytes(ctx, f.Group, []byte(given.Out))
	if err != nil {
		return err
	}
	f.out = string(all[0])
	return nil
}

// deviceHere returns where a process trains unless flags say so: the ranks of a machine take its
// GPUs in turn.
func (f *trainFlags) deviceHere() locus.Device {
	if f.Group != nil {
		return f.place.Device()
	}
	return locus.TryGPU()
}

// quiet lets only rank 0 speak; of the others only errors are seen.
func (a *app) quiet(g *collective.Group) {
	if g != nil && g.Rank() > 0 {
		a.out, a.rawErr = text.New(io.Discard, a.env), io.Discard
	}
}
