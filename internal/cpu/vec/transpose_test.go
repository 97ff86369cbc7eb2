package vec

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestTranspose(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testTranspose[uint8](t)
		testTranspose[uint16](t)
		testTranspose[uint32](t)
		testTranspose[uint64](t)
	})
}

// testTranspose tries all small shapes and some larger ones, at places of no
// particular alignment, forwards and backwards, and looks for what is written
// beside the result.
func testTranspose[W Word](t *testing.T) {
	random := rand.New(rand.NewPCG(1, uint64(unsafe.Sizeof(W(0)))))
	try := func(rows, columns int) {
		gap, pad := random.IntN(4), random.IntN(4)
		pitch, from := columns+pad, rows+gap
		src := make([]W, columns*from+7)
		for i := range src {
			src[i] = W(random.Uint64())
		}
		first := random.IntN(7)
		for _, back := range []bool{false, true} {
			at, step := first, from
			if back {
				at, step = first+(columns-1)*from, -from
			}
			dst := make([]W, rows*pitch+5)
			for i := range dst {
				dst[i] = W(i)
			}
			Transpose(dst[2:], pitch, src, at, step, rows, columns)
			for i, got := range dst {
				want := W(i)
				if r, c := (i-2)/pitch, (i-2)%pitch; i >= 2 && r < rows && c < columns {
					want = src[at+r+c*step]
				}
				if got != want {
					t.Fatalf("%T %d×%d, pitch %d, from %d: element %d is %d, want %d", got, rows, columns, pitch, step, i, got, want)
				}
			}
		}
	}
	for rows := 1; rows < 36; rows++ {
		for columns := 1; columns < 20; columns++ {
			try(rows, columns)
		}
	}
	for range 30 {
		try(1+random.IntN(200), 1+random.IntN(200))
	}
}

func TestTransposeStream(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		testTransposeStream[uint8](t)
		testTransposeStream[uint16](t)
		testTransposeStream[uint32](t)
		testTransposeStream[uint64](t)
	})
}

func testTransposeStream[W Word](t *testing.T) {
	rows, columns := StreamTile[W]()
	if rows == 0 {
		if streams() {
			t.Fatal("no tiles where there is code for them")
		}
		return
	}
	const tiles = 5
	pitch, from := 3*columns, tiles*rows+3
	src := make([]W, columns*from+3)
	for i := range src {
		src[i] = W(i * 7919)
	}
	dst := make([]W, tiles*rows*pitch+64)
	for uintptr(unsafe.Pointer(&dst[0]))%64 != 0 {
		dst = dst[1:]
	}
	TransposeStream(dst[columns:], pitch, src, 3, from, tiles)
	for i, got := range dst {
		var want W
		if r, c := i/pitch, i%pitch-columns; r < tiles*rows && c >= 0 && c < columns {
			want = src[3+r+c*from]
		}
		if got != want {
			t.Fatalf("%T: element %d is %d, want %d", got, i, got, want)
		}
	}
}

func TestTransposeChecksBounds(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, c := range []struct {
			name                         string
			dst, src, pitch, at, from, n int
		}{
			{"short result", 16*16 - 1, 16 * 16, 16, 0, 16, 16},
			{"short source", 16 * 16, 16*16 - 1, 16, 0, 16, 16},
			{"before the source", 16 * 16, 16 * 16, 16, -1, 16, 16},
			{"backwards beyond", 16 * 16, 16 * 16, 16, 14 * 16, -16, 16},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", c.name)
					}
				}()
				Transpose(make([]uint32, c.dst), c.pitch, make([]uint32, c.src), c.at, c.from, c.n, c.n)
			}()
		}
	})
}
