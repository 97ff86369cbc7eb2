package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
)

// ErrFormat is in the chain of every error about a file that breaks its
// format's rules: truncated, overlapping, oversized, or not such a file at all.
var ErrFormat = errors.New("malformed weight file")

// ErrUnpacked is in the chain of the error about a compressed file that would
// unpack to more than is allowed: see [MaxUnpacked].
var ErrUnpacked = errors.New("too large when unpacked")

// malformed makes an ErrFormat. Texts of a file go into it with %q, and may be
// as long as the file: a message need not.
func malformed(format string, args ...any) error {
	const most = 1000
	msg := fmt.Sprintf(format, args...)
	if len(msg) > most {
		msg = strings.ToValidUTF8(msg[:most], "") + "…"
	}
	return fmt.Errorf("%w: %s", ErrFormat, msg)
}

// maxDims is more than any program writes: NumPy's own limit.
const maxDims = 64

// Format is a kind of file.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	NPY         Format = "npy" // one tensor, whose name is ""
	NPZ         Format = "npz"
)

// Info describes a tensor in a file.
type Info struct {
	Name string
	Spec
	// Type is the element type as the file spells it. Files may hold types that
	// Locus does not have, such as "F8_E4M3" or "<u2": Spec.DType is then
	// invalid and loading the tensor is an error; other tensors load.
	Type  string
	Bytes int64
}

// Spec is an element type and a shape.
type Spec struct {
	DType locus.DType
	Shape []int
}

// SpecOf returns t's element type and shape.
func SpecOf(t *locus.Tensor) Spec { return Spec{t.DType(), t.Shape()} }

// String returns "float32 (2, 3)".
func (s Spec) String() string { return s.DType.String() + " " + op.ShapeString(s.Shape) }

// entry is a tensor in a file.
type entry struct {
	Info
	read    func() ([]byte, error) // its bytes; valid until the file is closed
	big     bool                   // the bytes are big-endian
	fortran bool                   // the first axis changes fastest
}

// File is an open file of tensors. Its methods may be called from any goroutine.
type File struct {
	format   Format
	path     string
	entries  []*entry
	byName   map[string]*entry
	metadata map[string]string

	mu     sync.RWMutex // held for reading while bytes are in use
	source source
	closed bool
}

// OpenOption changes what [Open] and [Read] accept. The zero value changes nothing.
type OpenOption struct{ set func(*opening) }

type opening struct {
	unpacked int64 // 0 for the rule
}

// MaxUnpacked is the most bytes that the compressed members of an npz file may
// unpack to, all of them together. Without it that is 256 MiB or a hundred times
// the size of the file, whichever is more: a small file that would fill the
// memory is refused before it does.
func MaxUnpacked(bytes int64) OpenOption {
	return OpenOption{func(o *opening) { o.unpacked = bytes }}
}

// Open opens a safetensors, npy or npz file, told apart by its content, and
// checks its structure. The tensors themselves are read by [File.Load]. Anything
// but a regular file, such as a folder or a pipe, is an error at once.
func Open(path string, opts ...OpenOption) (*File, error) {
	s, err := openSource(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	f, err := newFile(s, path, opts)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("weights: %s: %w", path, err)
	}
	return f, nil
}

// Read is like [Open] for content that is not in a file.
func Read(r io.ReaderAt, size int64, opts ...OpenOption) (*File, error) {
	if err := gate.Given("the reader", r); err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if size < 0 {
		return nil, fmt.Errorf("weights: the size is %d bytes: %w", size, locus.ErrArgument)
	}
	f, err := newFile(&plain{r, size, nil}, "", opts)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	return f, nil
}

func newFile(s source, path string, opts []OpenOption) (*File, error) {
	var o opening
	for _, opt := range opts {
		if opt.set != nil {
			opt.set(&o)
		}
	}
	var magic [8]byte
	n, err := s.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &File{path: path, source: s, byName: map[string]*entry{}}
	switch head := string(magic[:n]); {
	case strings.HasPrefix(head, npyMagic):
		f.format = NPY
		err = f.parseNPY()
	case strings.HasPrefix(head, "PK\x03\x04") || strings.HasPrefix(head, "PK\x05\x06"):
		f.format = NPZ
		err = f.parseNPZ(o)
	default:
		f.format = Safetensors
		err = f.parseSafetensors()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// add makes an entry known; a name must come once.
func (f *File) add(e *entry) error {
	if _, twice := f.byName[e.Name]; twice {
		return malformed("the name %q comes twice", e.Name)
	}
	f.byName[e.Name] = e
	f.entries = append(f.entries, e)
	return nil
}

// sizeOf is the number of elements of a shape as a file claims it.
func sizeOf(shape []uint64) (dims []int, n uint64, err error) {
	if len(shape) > maxDims {
		return nil, 0, malformed("%d dimensions; no file has more than %d", len(shape), maxDims)
	}
	n = 1
	dims = make([]int, len(shape))
	for i, d := range shape {
		if d > math.MaxInt || d > 0 && n > math.MaxInt/16/d {
			return nil, 0, malformed("shape %v has too many elements", shape)
		}
		if d > 0 { // sizes multiply behind a zero too: strides must not overflow either
			n *= d
		}
		dims[i] = int(d)
	}
	if slices.Contains(shape, 0) {
		n = 0
	}
	return dims, n, nil
}

// Path is the name given to [Open]; "" for [Read].
func (f *File) Path() string {
	gate.Receiver("weights.File.Path", f != nil && f.source != nil, "open it with weights.Open")
	return f.path
}

// Format returns what kind of file it is.
func (f *File) Format() Format {
	gate.Receiver("weights.File.Format", f != nil && f.source != nil, "open it with weights.Open")
	return f.format
}

// Len is the number of tensors.
func (f *File) Len() int {
	gate.Receiver("weights.File.Len", f != nil && f.source != nil, "open it with weights.Open")
	return len(f.entries)
}

// Names lists the tensors in the order in which they lie in the file.
func (f *File) Names() []string {
	gate.Receiver("weights.File.Names", f != nil && f.source != nil, "open it with weights.Open")
	names := make([]string, len(f.entries))
	for i, e := range f.entries {
		names[i] = e.Name
	}
	return names
}

// Info describes one tensor.
func (f *File) Info(name string) (Info, bool) {
	gate.Receiver("weights.File.Info", f != nil && f.source != nil, "open it with weights.Open")
	e, ok := f.byName[name]
	if !ok {
		return Info{}, false
	}
	info := e.Info
	info.Shape = slices.Clone(info.Shape)
	return info, true
}

// Metadata returns the texts that were saved with the tensors; only safetensors
// files have them. The caller may keep and change the map.
func (f *File) Metadata() map[string]string {
	gate.Receiver("weights.File.Metadata", f != nil && f.source != nil, "open it with weights.Open")
	m := make(map[string]string, len(f.metadata))
	for k, v := range f.metadata {
		m[k] = v
	}
	return m
}

// Load reads the tensor called name to device d.
func (f *File) Load(name string, d locus.Device) (*locus.Tensor, error) {
	gate.Receiver("weights.File.Load", f != nil && f.source != nil, "open it with weights.Open")
	t, err := f.load(name, d)
	if err != nil {
		return nil, fmt.Errorf("weights: %s: tensor %q: %w", f.label(), name, err)
	}
	return t, nil
}

func (f *File) load(name string, d locus.Device) (*locus.Tensor, error) {
	e, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("%w: the file has no such tensor", fs.ErrNotExist)
	}
	if !e.DType.Valid() {
		return nil, fmt.Errorf("%w: the file's element type %s is not one that Locus has", locus.ErrDType, e.Type)
	}
	if len(e.Shape) > locus.MaxRank {
		return nil, fmt.Errorf("%w: %d dimensions; at most %d are supported", locus.ErrShape, len(e.Shape), locus.MaxRank)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return nil, fs.ErrClosed
	}
	b, err := e.read()
	if err != nil {
		return nil, err
	}
	return e.tensor(b, d)
}

// LoadAll reads every tensor of the file to device d.
func (f *File) LoadAll(d locus.Device) (map[string]*locus.Tensor, error) {
	gate.Receiver("weights.File.LoadAll", f != nil && f.source != nil, "open it with weights.Open")
	all := make(map[string]*locus.Tensor, len(f.entries))
	for _, e := range f.entries {
		t, err := f.Load(e.Name, d)
		if err != nil {
			return nil, err
		}
		all[e.Name] = t
	}
	return all, nil
}

// Close closes the file. Tensors that were loaded stay valid.
func (f *File) Close() error {
	gate.Receiver("weights.File.Close", f != nil && f.source != nil, "open it with weights.Open")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return f.source.Close()
}

func (f *File) label() string {
	if f.path == "" {
		return string(f.format) + " data"
	}
	return f.path
}
