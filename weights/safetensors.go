package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// A safetensors file is the header's length (8 bytes, little-endian), the header
// (JSON: name → dtype, shape, offsets; padded with spaces), and the elements.

// maxHeader is the format's own limit.
const maxHeader = 100_000_000

const metadataKey = "__metadata__"

// safeTypes and safeNames are the element types of the format that Locus has.
var safeTypes, safeNames = func() (map[string]locus.DType, map[locus.DType]string) {
	types, names := map[string]locus.DType{}, map[locus.DType]string{}
	for _, t := range fileTypes {
		types[t.safetensors], names[t.dtype] = t.dtype, t.safetensors
	}
	return types, names
}()

// foreignBits are the sizes in bits of the types that it does not have.
var foreignBits = map[string]uint64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I8": 8, "I16": 16, "U16": 16, "U32": 32, "U64": 64, "C64": 64,
}

func (f *File) parseSafetensors() error {
	size := f.source.Size()
	if size < 8 {
		return malformed("%d bytes are too few for a safetensors, npy or npz file", size)
	}
	var length [8]byte
	if _, err := f.source.ReadAt(length[:], 0); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > maxHeader:
		return malformed("a safetensors header of %d bytes; the limit is %d (or this is not a safetensors, npy or npz file)", n, maxHeader)
	case n > uint64(size-8):
		return malformed("the header claims %d bytes, the file has %d in all: it is truncated", n, size)
	case n < 2:
		return malformed("a header of %d bytes", n)
	}
	header, err := f.source.Bytes(8, int64(n))
	if err != nil {
		return err
	}
	if header[0] != '{' {
		return malformed("the header does not start with {")
	}
	if !utf8.Valid(header) {
		return malformed("the header is not UTF-8")
	}
	list, metadata, err := parseHeader(header)
	if err != nil {
		return err
	}
	f.metadata = metadata
	if err := checkLayout(list, uint64(size)-8-n); err != nil {
		return err
	}
	data := 8 + int64(n)
	for _, h := range list {
		e := &entry{Info: Info{Name: h.name, Spec: Spec{safeTypes[h.dtype], h.dims}, Type: h.dtype, Bytes: int64(h.end - h.begin)}}
		e.read = func() ([]byte, error) { return f.source.Bytes(data+int64(h.begin), int64(h.end-h.begin)) }
		if err := f.add(e); err != nil {
			return err
		}
	}
	return nil
}

// headerEntry is a tensor as the header describes it.
type headerEntry struct {
	name       string
	dtype      string
	shape      []uint64
	dims       []int
	begin, end uint64
}

// parseHeader reads the JSON one token at a time, because a map would hide
// names that come twice.
func parseHeader(header []byte) ([]headerEntry, map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(header))
	var list []headerEntry
	var metadata map[string]string
	err := eachField(d, func(name string) error {
		if name == metadataKey {
			metadata = map[string]string{}
			return eachField(d, func(key string) error {
				if _, twice := metadata[key]; twice {
					return malformed("the metadata %q comes twice", key)
				}
				var value *string
				if err := d.Decode(&value); err != nil || value == nil {
					return malformed("the metadata %q is not a text", key)
				}
				metadata[key] = *value
				return nil
			})
		}
		h, err := parseHeaderEntry(d, name)
		list = append(list, h)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, malformed("something follows the header's JSON")
	}
	return list, metadata, nil
}

func parseHeaderEntry(d *json.Decoder, name string) (headerEntry, error) {
	h := headerEntry{name: name}
	var offsets []uint64
	seen := map[string]bool{}
	err := eachField(d, func(field string) error {
		if seen[field] {
			return malformed("tensor %q: the field %q comes twice", name, field)
		}
		seen[field] = true
		var raw json.RawMessage
		var into any
		switch field {
		case "dtype":
			into = &h.dtype
		case "shape":
			into = &h.shape
		case "data_offsets":
			into = &offsets
		}
		err := d.Decode(&raw)
		const most = 4096 // bytes: what follows takes many times as much memory
		switch {
		case err != nil || into == nil: // of the second kind are fields of later versions of the format
		case len(raw) > most:
			err = fmt.Errorf("%d bytes; the limit is %d", len(raw), most)
		default:
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			return malformed("tensor %q: %s: %v", name, field, err)
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	if !seen["dtype"] || h.shape == nil || len(offsets) != 2 {
		return h, malformed("tensor %q: want dtype, shape and two data_offsets", name)
	}
	h.begin, h.end = offsets[0], offsets[1]
	dims, n, err := sizeOf(h.shape)
	if err != nil {
		return h, fmt.Errorf("tensor %q: %w", name, err)
	}
	h.dims = dims
	bits, known := foreignBits[h.dtype]
	if dt, ok := safeTypes[h.dtype]; ok {
		bits, known = uint64(dt.Size())*8, true
	}
	if !known {
		return h, malformed("tensor %q: unknown element type %q", name, h.dtype)
	}
	if n > math.MaxUint64/64 {
		return h, malformed("tensor %q: shape %v has too many elements", name, h.shape)
	}
	if n*bits%8 != 0 {
		return h, malformed("tensor %q: %d elements of %d bits do not fill bytes", name, n, bits)
	}
	if h.begin > h.end || h.end-h.begin != n*bits/8 {
		return h, malformed("tensor %q: %s %v takes %d bytes, the offsets are [%d, %d]", name, h.dtype, h.shape, n*bits/8, h.begin, h.end)
	}
	return h, nil
}

// eachField walks over an object's fields; visit decodes each value.
func eachField(d *json.Decoder, visit func(name string) error) error {
	open, err := d.Token()
	if err != nil {
		return malformed("the header is not JSON: %v", err)
	}
	if open != json.Delim('{') {
		return malformed("the header has %v where an object should be", open)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return malformed("the header is not JSON: %v", err)
		}
		if err := visit(name.(string)); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed("the header is not JSON: %v", err)
	}
	return nil
}

// checkLayout sorts the tensors as they lie in the file and makes sure that
// they cover its data without overlaps and holes.
func checkLayout(list []headerEntry, size uint64) error {
	slices.SortStableFunc(list, func(a, b headerEntry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := uint64(0)
	for _, h := range list {
		switch {
		case h.end > size:
			return malformed("tensor %q ends at %d, the file's data at %d: it is truncated", h.name, h.end, size)
		case h.begin < at:
			return malformed("tensor %q overlaps the one before it", h.name)
		case h.begin > at:
			return malformed("%d bytes before tensor %q belong to none", h.begin-at, h.name)
		}
		at = h.end
	}
	if at != size {
		return malformed("%d bytes after the last tensor belong to none", size-at)
	}
	return nil
}

// Save writes a safetensors file, replacing path as a whole or not at all. The same
// tensors and metadata yield the same bytes.
func Save(path string, tensors map[string]*locus.Tensor, metadata map[string]string) error {
	return saveFile(disk.OS, path, func(w io.Writer) error { return writeSafetensors(w, tensors, metadata) })
}

// Write writes what [Save] would.
func Write(w io.Writer, tensors map[string]*locus.Tensor, metadata map[string]string) error {
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if err := writeSafetensors(w, tensors, metadata); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

func saveFile(fs disk.FS, path string, write func(io.Writer) error) error {
	if err := disk.WriteFile(fs, path, write); err != nil {
		return fmt.Errorf("weights: saving %s: %w", path, err)
	}
	return nil
}

func writeSafetensors(w io.Writer, tensors map[string]*locus.Tensor, metadata map[string]string) error {
	if err := checkTensors(tensors); err != nil {
		return err
	}
	// Large elements first: all of them are then aligned. Names decide the rest.
	names := slices.Sorted(maps.Keys(tensors))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(tensors[b].DType().Size(), tensors[a].DType().Size())
	})
	header, err := makeHeader(names, tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	buf := aligned(chunk)
	for _, name := range names {
		if err := writeTensor(w, tensors[name], buf); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return nil
}

func makeHeader(names []string, tensors map[string]*locus.Tensor, metadata map[string]string) ([]byte, error) {
	b := append(make([]byte, 8), '{')
	if len(metadata) > 0 {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("%w: the metadata %q is not UTF-8", locus.ErrArgument, k)
			}
		}
		text, err := json.Marshal(metadata) // in the order of the keys
		if err != nil {
			return nil, err
		}
		b = append(b, `"`+metadataKey+`":`...)
		b = append(b, text...)
	}
	at := 0
	for _, name := range names {
		if name == metadataKey || !utf8.ValidString(name) {
			return nil, fmt.Errorf("%w: a tensor cannot be called %q", locus.ErrArgument, name)
		}
		t := tensors[name]
		if len(b) > 9 {
			b = append(b, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		shape, err := json.Marshal(t.Shape())
		if err != nil {
			return nil, err
		}
		if t.Rank() == 0 {
			shape = []byte("[]") // a nil slice would be null
		}
		b = append(b, quoted...)
		b = fmt.Appendf(b, `:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, safeNames[t.DType()], shape, at, at+t.Bytes())
		at += t.Bytes()
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > maxHeader {
		return nil, fmt.Errorf("%w: %d tensors and their metadata make a header of %d bytes; the format's limit is %d", locus.ErrArgument, len(names), len(b)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}
