//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
)

// A program's kernels are known before it runs for the first time: the code that queues
// the calls is run without queueing anything, and the kernels that it asks for and that
// are not there are compiled, several at a time, while the program begins to run. Calls
// that need a library are left out.

var _ backend.Preparer = (*Device)(nil)

// wanted is a kernel that a dry run has asked for.
type wanted struct {
	name, text string
	params     int
	fused      bool // the program can begin without it
}

// noRoom is the working memory of calls that are not queued: nobody reads or writes it.
const noRoom = 1 << 20

// Prepare begins to compile the kernels of calls.
func (d *Device) Prepare(calls []*backend.Call) {
	if d.begin() != nil {
		return // the first call says why
	}
	missing := d.missing(calls)
	d.end()
	// The first run waits for all but the fused ones, so the longest texts begin.
	slices.SortStableFunc(missing, func(a, b wanted) int {
		if a.fused != b.fused {
			if b.fused {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(b.text), len(a.text))
	})
	for _, w := range missing {
		d.card.compile(w.name, w.text)
	}
}

// missing returns the kernels of calls that are not loaded. Between begin and end.
func (d *Device) missing(calls []*backend.Call) []wanted {
	var list []wanted
	found := d.found // nothing that a dry run finds may stay
	d.divert(&capture{dry: &list})
	for _, c := range calls {
		if run := runners[c.Op]; run != nil && c.Out.Block != nil && c.Out.Elements() > 0 {
			_ = run(d, c) // what cannot be found out without running it is found when it runs
		}
	}
	d.divert(nil)
	d.found = found
	return list
}

// preload loads the kernels of calls, which an op queues one after the other and of which
// one may write over what an earlier one reads: if it failed in the middle, for lack of
// the driver's memory, it could not start over. Between begin and end.
func (d *Device) preload(calls ...*backend.Call) error {
	if d.rec.capture != nil {
		return nil // nothing runs, so it can
	}
	for _, w := range d.missing(calls) {
		if _, err := d.load(w.name, func() (string, int, error) { return w.text, w.params, nil }); err != nil {
			return err
		}
	}
	return nil
}

// standIn notes a kernel that is not loaded, and returns one in its place.
func (c *capture) standIn(name string, text func() (string, int, error)) (*kernel, error) {
	s, params, err := text()
	if err != nil {
		return nil, err
	}
	c.want(wanted{name: name, text: s, params: params})
	return &kernel{name: name, params: params}, nil
}

// want notes a kernel, once.
func (c *capture) want(w wanted) {
	for _, other := range *c.dry {
		if other.name == w.name {
			return
		}
	}
	*c.dry = append(*c.dry, w)
}

// dry reports whether calls are only looked at.
func (d *Device) dry() bool { return d.rec.capture != nil && d.rec.capture.dry != nil }

// copyOf returns a copy of memory of the driver's.
func copyOf(p uintptr, n uint64) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(pointer(p)), n)...)
}
