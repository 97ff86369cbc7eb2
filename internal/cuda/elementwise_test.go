//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// numbersIn finds a definition in a kernel source and returns the numbers in it.
func numbersIn(t *testing.T, file, pattern string) []int {
	t.Helper()
	src, err := os.ReadFile("kernels/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(src)
	if m == nil {
		t.Fatalf("kernels/%s has nothing like %s: if its meaning changed, lanes or width must change too, and then this test", file, pattern)
	}
	var n []int
	for _, s := range m[1:] {
		v, err := strconv.Atoi(string(s))
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, v)
	}
	return n
}

// The number of elements per thread is the same in Go, which divides the work, and in
// the kernels, which do it.
func TestWidthsAreThoseOfTheKernels(t *testing.T) {
	l := numbersIn(t, "locus.cuh", `#define LANES\(T\) \((\d+) / \(int\)sizeof\(T\) > (\d+) \? (\d+) : (\d+) / \(int\)sizeof\(T\)\)\n`)
	if l[0] != l[3] || l[1] != l[2] {
		t.Fatalf("LANES is not a minimum any more: %v", l)
	}
	numbersIn(t, "elementwise.cuh", `#define WIDE\(T\) LANES\(T\)\n`)
	h := numbersIn(t, "elementwise.cuh", `#define HEAVY\(T\) \(sizeof\(T\) == 8 \? (\d+) : (\d+)\)\n`)
	tile := numbersIn(t, "reduce.cuh", `#define TILE_LANES\(T\) \(LANES\(T\) > (\d+) \? (\d+) : LANES\(T\)\)\n`)
	for _, typ := range dtype.All {
		wide := min(l[1], l[0]/typ.Size())
		if got := lanes(typ); got != wide {
			t.Errorf("lanes(%s) = %d; LANES is %d", typ, got, wide)
		}
		if got := tileLanes(typ); tile[0] != tile[1] || got != min(tile[0], wide) {
			t.Errorf("tileLanes(%s) = %d; TILE_LANES is %d", typ, got, min(tile[0], wide))
		}
		if got := width(op.Add, typ, typ); got != wide {
			t.Errorf("width(add, %s) = %d; WIDE is %d", typ, got, wide)
		}
		if !typ.IsFloat() {
			continue
		}
		want := h[1]
		if typ.Size() == 8 {
			want = h[0]
		}
		if got := width(op.Erf, typ, typ); got != want {
			t.Errorf("width(erf, %s) = %d; HEAVY is %d", typ, got, want)
		}
	}
	if got := width(op.Pow, dtype.Int32, dtype.Int32); got != lanes(dtype.Int32) {
		t.Errorf("width(pow, int32) = %d; kernels of integers are WIDE: %d", got, lanes(dtype.Int32))
	}
}
