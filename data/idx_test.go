package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// idx makes a file's content.
func idx(elem byte, shape []uint32, content []byte) []byte {
	b := []byte{0, 0, elem, byte(len(shape))}
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, content...)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func TestReadIDX(t *testing.T) {
	dir := t.TempDir()
	write := func(b []byte) string {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, pack := range []func([]byte) []byte{slices.Clone[[]byte], gzipped} {
		x, err := ReadIDX(write(pack(idx(idxUint8, []uint32{2, 3}, []byte{1, 2, 3, 4, 5, 255}))))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.String(); got != locus.From([]uint8{1, 2, 3, 4, 5, 255}, 2, 3).String() {
			t.Error(got)
		}
	}
	for elem, c := range map[byte]struct {
		content []byte
		want    *locus.Tensor
	}{
		idxInt32:   {[]byte{0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff}, locus.From([]int32{256, -1})},
		idxFloat32: {[]byte{0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}, locus.From([]float32{1, -2})},
		idxFloat64: {[]byte{0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0}, locus.From([]float64{1, -2})},
	} {
		x, err := ReadIDX(write(idx(elem, []uint32{2}, c.content)))
		if err != nil {
			t.Fatal(err)
		}
		if x.String() != c.want.String() {
			t.Errorf("%v, want %v", x, c.want)
		}
	}
	good := idx(idxUint8, []uint32{2, 3}, make([]byte, 6))
	damaged := gzipped(good)
	damaged[len(damaged)-8] ^= 1
	for name, content := range map[string][]byte{
		"empty":           nil,
		"three bytes":     {0, 0, 8},
		"wrong start":     {1, 0, 8, 1, 0, 0, 0, 0},
		"unknown type":    idx(0x0b, []uint32{1}, []byte{0, 0}),
		"too many axes":   idx(idxUint8, make([]uint32, 200), nil),
		"header cut":      good[:7],
		"content cut":     good[:len(good)-1],
		"content longer":  append(slices.Clone(good), 0),
		"oversized":       idx(idxUint8, []uint32{0xffffffff}, nil),
		"overflow":        idx(idxFloat64, []uint32{0x7fffffff, 0x7fffffff, 0x7fffffff}, nil),
		"large, no data":  idx(idxUint8, []uint32{1 << 30}, nil),
		"zero then large": idx(idxUint8, []uint32{0, 0x7fffffff, 0x7fffffff}, nil),
		"gzip cut":        gzipped(good)[:20],
		"gzip damaged":    damaged,
		"gzip header cut": {0x1f, 0x8b, 8},
	} {
		if _, err := ReadIDX(write(content)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadIDX(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzIDX(f *testing.F) {
	f.Add(idx(idxUint8, []uint32{2, 3}, make([]byte, 6)))
	f.Add(idx(idxFloat64, []uint32{1}, make([]byte, 8)))
	f.Add(gzipped(idx(idxInt32, []uint32{1, 1}, make([]byte, 4))))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := readIDX(bytes.NewReader(b), int64(len(b)), reading{})
		if err == nil && len(b) > 2 && b[0] == 0 && x.Bytes() > len(b) {
			t.Errorf("%d bytes from %d", x.Bytes(), len(b))
		}
	})
}
