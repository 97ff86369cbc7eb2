package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
)

// ErrFormat is in the chain of errors about files that are not what they should
// be: truncated, oversized, damaged.
var ErrFormat = errors.New("malformed data file")

// maxIDX is the largest file that is read: whole in memory, so it must have a
// limit. The largest known one has 0.2 GB.
const maxIDX = 4 << 30

// ReadIDX reads a file in the IDX format of MNIST, plain or compressed with
// gzip, into a tensor on the CPU. Elements are uint8, int32, float32 or float64.
func ReadIDX(path string) (*locus.Tensor, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	t, err := readIDX(file)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return t, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func readIDX(r io.Reader) (*locus.Tensor, error) {
	shape, elem, raw, err := parseIDX(r)
	if err != nil {
		return nil, err
	}
	n := op.Elements(shape)
	var flat any
	switch elem {
	case idxUint8:
		flat = raw
	case idxInt32:
		s := make([]int32, n)
		err = binary.Read(bytes.NewReader(raw), binary.BigEndian, s)
		flat = s
	case idxFloat32:
		s := make([]float32, n)
		err = binary.Read(bytes.NewReader(raw), binary.BigEndian, s)
		flat = s
	case idxFloat64:
		s := make([]float64, n)
		err = binary.Read(bytes.NewReader(raw), binary.BigEndian, s)
		flat = s
	}
	if err != nil {
		return nil, err
	}
	var t *locus.Tensor
	err = locus.Try(func() { t = locus.CPU().From(flat, n).Reshape(shape...) })
	return t, err
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
func parseIDX(r io.Reader) (shape []int, elem byte, raw []byte, err error) {
	fail := func(err error) ([]int, byte, []byte, error) {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = malformed("truncated")
		} else if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
			err = malformed("%v", err)
		}
		return nil, 0, nil, err
	}
	buffered := bufio.NewReader(r)
	if start, err := buffered.Peek(2); err == nil && start[0] == 0x1f && start[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fail(err)
		}
		defer z.Close()
		buffered = bufio.NewReader(z)
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
	total := int64(size)
	for range magic[3] {
		var b [4]byte
		if _, err := io.ReadFull(buffered, b[:]); err != nil {
			return fail(err)
		}
		d := binary.BigEndian.Uint32(b[:])
		if d > 0 && total > maxIDX/int64(d) || d > math.MaxInt32 {
			return fail(malformed("the header claims more than the limit of %d bytes", int64(maxIDX)))
		}
		total *= max(int64(d), 1)
		shape = append(shape, int(d))
	}
	want := int64(op.Elements(shape) * size)
	var content bytes.Buffer
	if n, err := io.Copy(&content, io.LimitReader(buffered, want)); err != nil {
		return fail(err)
	} else if n < want {
		return fail(malformed("truncated: %d of %d bytes", n, want))
	}
	if _, err := buffered.ReadByte(); err == nil {
		return fail(malformed("more follows the %d bytes that the header claims", want))
	} else if !errors.Is(err, io.EOF) {
		return fail(err)
	}
	return shape, magic[2], content.Bytes(), nil
}
