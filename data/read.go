package data

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/printable"
)

// maxRead is the most that is read into memory unless the caller allows more.
// The largest known IDX file has 0.6 GB.
const maxRead = 4 << 30

// ReadOption changes how [ReadIDX] and [ReadText] read a file. The zero value
// changes nothing.
type ReadOption struct{ set func(*reading) }

type reading struct {
	most int64 // bytes; 0 for the rule
}

// MaxBytes is the most bytes that are read into memory: of a compressed file, of
// what it unpacks to. Without it that is 4 GiB, and of a compressed file at most
// 256 MiB or a hundred times its size, whichever is more: a small file that
// would fill the memory is refused before it does.
func MaxBytes(n int64) ReadOption { return ReadOption{func(r *reading) { r.most = n }} }

// limit returns the most bytes that may be read of a file of the given size.
func (r reading) limit(size int64, packed bool) int64 {
	switch {
	case r.most > 0:
		return r.most
	case packed:
		return min(maxRead, disk.MaxUnpacked(size))
	}
	return maxRead
}

func readOptions(opts []ReadOption) (r reading) {
	for _, o := range opts {
		if o.set != nil {
			o.set(&r)
		}
	}
	return r
}

// budget is a reader that fails when what it has passed on would take more
// memory than allowed. cost says what the bytes take once they are decoded.
type budget struct {
	r    io.Reader
	left int64
	cost func([]byte) int64
	err  error // what it fails with
}

func (b *budget) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= b.cost(p[:n]); b.left < 0 {
		return 0, b.err
	}
	return n, err
}

// list joins names that come from a file for an error: fit for a terminal, and
// not all of them if there are many.
func list(names []string) string {
	const most = 50
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(", and %d more", len(names)-most)
		names = names[:most]
	}
	names = slices.Clone(names)
	for i, n := range names {
		names[i] = printable.Text(n)
	}
	return strings.Join(names, ", ") + more
}
