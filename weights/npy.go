package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// An npy file is a magic text, a version, the header's length, the header (a
// Python dict of descr, fortran_order and shape), and the elements.

const npyMagic = "\x93NUMPY"

// maxNPYHeader is far more than any array's header takes.
const maxNPYHeader = 1 << 20

// npyTypes are the element types by NumPy's name without the byte order.
var npyTypes = func() map[string]locus.DType {
	m := map[string]locus.DType{}
	for _, t := range fileTypes {
		m[t.npy] = t.dtype
	}
	return m
}()

// npyHeader is what stands before an array's elements.
type npyHeader struct {
	info    Info // without a name
	big     bool
	fortran bool
	offset  int64 // of the elements
}

func (f *File) parseNPY() error {
	h, err := readNPYHeader(io.NewSectionReader(f.source, 0, f.source.Size()))
	if err != nil {
		return err
	}
	if rest := f.source.Size() - h.offset; rest != h.info.Bytes {
		return malformed("%s %v takes %d bytes, %d follow the header", h.info.Type, h.info.Shape, h.info.Bytes, rest)
	}
	e := &entry{Info: h.info, big: h.big, fortran: h.fortran}
	e.read = func() ([]byte, error) { return f.source.Bytes(h.offset, h.info.Bytes) }
	return f.add(e)
}

// readNPYHeader reads up to the elements.
func readNPYHeader(r io.Reader) (*npyHeader, error) {
	short := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return malformed("the npy header is truncated")
		}
		return err
	}
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return nil, short(err)
	}
	if string(start[:6]) != npyMagic {
		return nil, malformed("not an npy array: it starts with %q", start[:6])
	}
	var size uint32
	offset := int64(10)
	switch start[6] {
	case 1:
		var b [2]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, short(err)
		}
		size = uint32(binary.LittleEndian.Uint16(b[:]))
	case 2, 3:
		var b [4]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, short(err)
		}
		size = binary.LittleEndian.Uint32(b[:])
		offset = 12
	default:
		return nil, malformed("npy version %d.%d is not known", start[6], start[7])
	}
	if size > maxNPYHeader {
		return nil, malformed("an npy header of %d bytes; the limit is %d", size, maxNPYHeader)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, short(err)
	}
	h := &npyHeader{offset: offset + int64(size)}
	return h, h.parse(string(text))
}

// parse reads the dict.
func (h *npyHeader) parse(text string) error {
	fields, err := parseDict(text)
	if err != nil {
		return err
	}
	descr, ok1 := fields["descr"].(string)
	fortran, ok2 := fields["fortran_order"].(bool)
	shape, ok3 := fields["shape"].([]uint64)
	if !ok1 || !ok2 || !ok3 || len(fields) != 3 {
		return malformed("an npy header has descr, fortran_order and shape, not %.200q", text)
	}
	h.fortran = fortran
	size, err := h.parseDescr(descr)
	if err != nil {
		return err
	}
	dims, n, err := sizeOf(shape)
	if err != nil {
		return err
	}
	if size > 0 && n > math.MaxInt/size {
		return malformed("shape %v has too many elements", shape)
	}
	h.info.Shape, h.info.Bytes = dims, int64(n*size)
	return nil
}

// parseDescr reads an element type such as "<f4" and returns its size.
func (h *npyHeader) parseDescr(descr string) (size uint64, err error) {
	bad := malformed("NumPy has no element type %.40q", descr)
	if len(descr) < 2 || !strings.ContainsRune("<>|=", rune(descr[0])) {
		return 0, bad
	}
	kind := descr[1]
	if kind == 'O' {
		return 0, malformed("the array holds Python objects; they are never loaded, since that would run code")
	}
	digits, unit, dated := strings.Cut(descr[2:], "[") // the unit of dates, such as "[ns]" or "[25s]"
	if dated && (len(unit) > 10 || strings.Trim(strings.TrimSuffix(unit, "]"), "0123456789abcdefghijklmnopqrstuvwxyzDMYWμ") != "") {
		return 0, bad
	}
	if len(digits) > 9 || !strings.ContainsRune("?biufcmMSUV", rune(kind)) {
		return 0, bad
	}
	size, err = strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, bad
	}
	h.big = descr[0] == '>'
	h.info.Type = descr
	h.info.DType = npyTypes[descr[1:]] // or invalid
	if kind == 'U' {
		size *= 4
	}
	return size, nil
}

// parseDict reads a Python dict of texts to texts, bools, or tuples of whole
// numbers: all that a header may hold, and nothing that could be run.
func parseDict(s string) (map[string]any, error) {
	p := &literal{rest: s}
	fields := map[string]any{}
	if !p.eat('{') {
		return nil, p.bad(s)
	}
	for !p.eat('}') {
		key, ok := p.text()
		if _, twice := fields[key]; !ok || twice || !p.eat(':') {
			return nil, p.bad(s)
		}
		value, ok := p.value()
		if !ok {
			return nil, p.bad(s)
		}
		fields[key] = value
		if !p.eat(',') {
			if !p.eat('}') {
				return nil, p.bad(s)
			}
			break
		}
	}
	p.space()
	if p.rest != "" {
		return nil, p.bad(s)
	}
	return fields, nil
}

type literal struct{ rest string }

func (p *literal) bad(all string) error {
	return malformed("the npy header is not one that can be read, at byte %d of %.200q", len(all)-len(p.rest), all)
}

func (p *literal) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *literal) eat(c byte) bool {
	p.space()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *literal) text() (string, bool) {
	p.space()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", false
	}
	end := strings.IndexByte(p.rest[1:], p.rest[0])
	if end < 0 || strings.ContainsRune(p.rest[1:1+end], '\\') {
		return "", false
	}
	s := p.rest[1 : 1+end]
	p.rest = p.rest[end+2:]
	return s, true
}

func (p *literal) value() (any, bool) {
	if s, ok := p.text(); ok {
		return s, true
	}
	if rest, ok := strings.CutPrefix(p.rest, "True"); ok {
		p.rest = rest
		return true, true
	}
	if rest, ok := strings.CutPrefix(p.rest, "False"); ok {
		p.rest = rest
		return false, true
	}
	if !p.eat('(') {
		return nil, false
	}
	tuple := []uint64{}
	for !p.eat(')') {
		p.space()
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return nil, false
		}
		n, err := strconv.ParseUint(p.rest[:end], 10, 64)
		if err != nil {
			return nil, false
		}
		p.rest = strings.TrimPrefix(p.rest[end:], "L") // Python 2 wrote 3L
		if tuple = append(tuple, n); len(tuple) > maxDims {
			return nil, false
		}
		if !p.eat(',') {
			if !p.eat(')') {
				return nil, false
			}
			break
		}
	}
	return tuple, true
}

// SaveNPY writes one tensor as an npy file, replacing path as a whole or not
// at all. NumPy has no bfloat16: it sees two opaque bytes per element, as it
// does of other packages that store them.
func SaveNPY(path string, t *locus.Tensor) error {
	return saveFile(disk.OS, path, func(w io.Writer) error { return writeNPY(w, t) })
}

// WriteNPY writes what [SaveNPY] would.
func WriteNPY(w io.Writer, t *locus.Tensor) error {
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if err := writeNPY(w, t); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

func writeNPY(w io.Writer, t *locus.Tensor) error {
	if err := checkTensors(map[string]*locus.Tensor{"": t}); err != nil {
		return err
	}
	return writeArray(w, t, aligned(min(chunk, max(8, t.Bytes()))))
}

func writeArray(w io.Writer, t *locus.Tensor, buf []byte) error {
	if _, err := w.Write(makeNPYHeader(t)); err != nil {
		return err
	}
	return writeTensor(w, t, buf)
}

func makeNPYHeader(t *locus.Tensor) []byte {
	name := ""
	for n, dt := range npyTypes {
		if dt == t.DType() {
			name = n
		}
	}
	order := "<"
	if t.DType().Size() == 1 {
		order = "|"
	}
	var shape strings.Builder
	for i, d := range t.Shape() {
		if i > 0 {
			shape.WriteString(" ")
		}
		fmt.Fprintf(&shape, "%d,", d)
	}
	dims := shape.String()
	if t.Rank() > 1 {
		dims = strings.TrimSuffix(dims, ",")
	}
	b := append([]byte(npyMagic), 1, 0, 0, 0)
	b = fmt.Appendf(b, "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, name, dims)
	// The elements start at a multiple of 64.
	b = append(b, bytes.Repeat([]byte(" "), 63-len(b)%64)...)
	b = append(b, '\n')
	binary.LittleEndian.PutUint16(b[8:], uint16(len(b)-10)) // at most 8 sizes: never too long
	return b
}
