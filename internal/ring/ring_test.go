package ring

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/engine"
)

func FuzzHead(f *testing.F) {
	var b [headSize]byte
	head{1, 2, 3, 4, 5}.encode(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, data []byte) {
		var b [headSize]byte
		copy(b[:], data)
		h, err := decodeHead(&b)
		if err == nil {
			var c [headSize]byte
			h.encode(&c)
			if b != c {
				t.Fatalf("%x became %x", b, c)
			}
		}
		if err := (head{1, 2, 3, 4, 5}).check(&b); (err == nil) != (h == head{1, 2, 3, 4, 5}) {
			t.Fatal(h, err)
		}
	})
}

// FuzzMessage reads messages from any bytes. What is not the message that was expected is an
// error, and nothing is allocated for lengths that cannot be.
func FuzzMessage(f *testing.F) {
	f.Add(append(message{3, "float32 (3,)"}.encode(), 1, 2, 3))
	f.Add(message{1 << 62, "float32 (3,)"}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		got := make([]byte, 3)
		err := receiveMessage(bytes.NewReader(data), got, "float32 (3,)", "rank 0", 1)
		right := message{3, "float32 (3,)"}.encode()
		if ok := bytes.HasPrefix(data, right) && len(data) >= len(right)+3; ok != (err == nil) {
			t.Fatal(err)
		}
	})
}

// Segments of a part follow each other without holes and cut no element.
func TestCut(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 1000, 1001} {
		for segments := 1; segments < 9; segments++ {
			at := 0
			for i := range segments {
				from, to := cut(n*8, i, segments, 8)
				if from != at || to < from || to%8 != 0 {
					t.Fatal(n, segments, i, from, to, at)
				}
				at = to
			}
			if at != n*8 {
				t.Fatal(n, segments, at)
			}
		}
	}
}

func TestReduceNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, op := range []engine.Op{engine.Max, engine.Min, engine.Sum, engine.Product} {
		for _, c := range [][2]float32{{nan, 1}, {1, nan}} {
			a, b, d := []float32{c[0]}, []float32{c[1]}, []float32{0}
			reduce(op, dtype.Float32, bytesOf(d), bytesOf(a), bytesOf(b), 2, false)
			if d[0] == d[0] {
				t.Errorf("op %d of %v is %v", op, c, d[0])
			}
		}
	}
}

func bytesOf(f []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4) }
