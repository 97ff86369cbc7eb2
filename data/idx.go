package data

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/op"
)

// ErrFormat is in the chain of errors about files that are not what they should
// be: truncated, oversized, damaged.
var ErrFormat = errors.New("malformed data file")

// ReadIDX reads a file in the IDX format of MNIST, plain or compressed with
// gzip, into a tensor on the CPU. Elements are uint8, int32, float32 or float64.
// [MaxBytes] says how large it may be.
func ReadIDX(path string, opts ...ReadOption) (*locus.Tensor, error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	t, err := readIDX(file, info.Size(), readOptions(opts))
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return t, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// readIDX reads from a file of the given size.
func readIDX(r io.Reader, size int64, opt reading) (*locus.Tensor, error) {
	shape, elem, raw, err := parseIDX(r, size, opt)
	if err != nil {
		return nil, err
	}
	n := op.Elements(shape)
	var flat any
	switch elem {
	case idxUint8:
		flat = raw
	case idxInt32:
		flat = decode(raw, n, 4, func(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) })
	case idxFloat32:
		flat = decode(raw, n, 4, func(b []byte) float32 { return math.Float32frombits(binary.BigEndian.Uint32(b)) })
	case idxFloat64:
		flat = decode(raw, n, 8, func(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) })
	}
	var t *locus.Tensor
	err = locus.Try(func() { t = locus.CPU().From(flat, n).Reshape(shape...) })
	return t, err
}

func decode[T any](raw []byte, n, size int, one func([]byte) T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = one(raw[i*size:])
	}
	return s
}

// The element types that IDX files have, by their code.
const (
	idxUint8   = 0x08
	idxInt32   = 0x0c
	idxFloat32 = 0x0d
	idxFloat64 = 0x0e
)

var idxSizes = map[byte]int{idxUint8: 1, idxInt32: 4, idxFloat32: 4, idxFloat64: 8}

// parseIDX reads a header (two zero bytes, the type, the number of axes, their
// sizes, all big-endian) and the elements. Memory grows with what is really
// there, not with what the header claims.
func parseIDX(r io.Reader, fileSize int64, opt reading) (shape []int, elem byte, raw []byte, err error) {
	fail := func(err error) ([]int, byte, []byte, error) {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = malformed("truncated")
		} else if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
			err = malformed("%v", err)
		}
		return nil, 0, nil, err
	}
	buffered := bufio.NewReader(r)
	packed := false
	if start, err := buffered.Peek(2); err == nil && start[0] == 0x1f && start[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fail(err)
		}
		defer z.Close()
		buffered, packed = bufio.NewReader(z), true
	}
	var magic [4]byte
	if _, err := io.ReadFull(buffered, magic[:]); err != nil {
		return fail(err)
	}
	size, known := idxSizes[magic[2]]
	if magic[0] != 0 || magic[1] != 0 || !known {
		return fail(malformed("it starts with % x; an IDX file of uint8, int32 or floats does not", magic))
	}
	if int(magic[3]) > locus.MaxRank {
		return fail(malformed("%d axes; at most %d are supported", magic[3], locus.MaxRank))
	}
	most := opt.limit(fileSize, packed)
	total := int64(size)
	for range magic[3] {
		var b [4]byte
		if _, err := io.ReadFull(buffered, b[:]); err != nil {
			return fail(err)
		}
		d := binary.BigEndian.Uint32(b[:])
		if d > 0 && total > most/int64(d) || d > math.MaxInt32 {
			return fail(malformed("the header claims more than the limit of %d bytes; if it is right, allow more with data.MaxBytes", most))
		}
		total *= max(int64(d), 1)
		shape = append(shape, int(d))
	}
	want := int64(op.Elements(shape) * size)
	content, err := disk.ReadN(buffered, want)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(malformed("truncated: %d of %d bytes", len(content), want))
	} else if err != nil {
		return fail(err)
	}
	if _, err := buffered.ReadByte(); err == nil {
		return fail(malformed("more follows the %d bytes that the header claims", want))
	} else if !errors.Is(err, io.EOF) {
		return fail(err)
	}
	return shape, magic[2], content, nil
}
