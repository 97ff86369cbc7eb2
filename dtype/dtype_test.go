package dtype

import (
	"math"
	"testing"
)

func TestEveryHalfRoundTrips(t *testing.T) {
	for i := 0; i < 1<<16; i++ {
		h, b := F16(i), BF16(i)
		if f := h.Float32(); f == f && ToF16(f) != h {
			t.Fatalf("F16 %#04x -> %v -> %#04x", i, f, ToF16(f))
		} else if f != f && ToF16(f).Float32() == ToF16(f).Float32() {
			t.Fatalf("F16 NaN %#04x lost", i)
		}
		if f := b.Float32(); f == f && ToBF16(f) != b {
			t.Fatalf("BF16 %#04x -> %v -> %#04x", i, f, ToBF16(f))
		} else if f != f && ToBF16(f).Float32() == ToBF16(f).Float32() {
			t.Fatalf("BF16 NaN %#04x lost", i)
		}
	}
}

// Between two neighboring halves, values below the middle go down, above it
// up, and the middle to the even one.
func TestHalfRoundsToNearestEven(t *testing.T) {
	for i := 0; i < 0x7bff; i++ {
		lo, hi := F16(i).Float32(), F16(i+1).Float32()
		mid := lo + (hi-lo)/2
		even := F16(i)
		if i&1 == 1 {
			even = F16(i + 1)
		}
		if got := ToF16(mid); got != even {
			t.Fatalf("ToF16(%v) = %#04x, want %#04x", mid, got, even)
		}
		if got := ToF16(math.Nextafter32(mid, 0)); got != F16(i) {
			t.Fatalf("just below %v: %#04x, want %#04x", mid, got, i)
		}
		if got := ToF16(math.Nextafter32(mid, 1e9)); got != F16(i+1) {
			t.Fatalf("just above %v: %#04x, want %#04x", mid, got, i+1)
		}
	}
	inf := float32(math.Inf(1))
	for f, want := range map[float32]F16{65519: 0x7bff, 65520: 0x7c00, 1e10: 0x7c00, inf: 0x7c00, -inf: 0xfc00, 1e-10: 0} {
		if got := ToF16(f); got != want {
			t.Errorf("ToF16(%v) = %#04x, want %#04x", f, got, want)
		}
	}
	for f, want := range map[float32]float32{1.00390625: 1, 1.01171875: 1.015625, 3.4e38: inf} {
		if got := ToBF16(f).Float32(); got != want {
			t.Errorf("ToBF16(%v) = %v, want %v", f, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, d := range All {
		if got, err := Parse(d.String()); err != nil || got != d {
			t.Errorf("Parse(%q) = %v, %v", d.String(), got, err)
		}
	}
	if d, err := Parse(" BF16 "); err != nil || d != BFloat16 {
		t.Errorf("Parse(BF16) = %v, %v", d, err)
	}
	if _, err := Parse("float33"); err == nil {
		t.Error("Parse accepted float33")
	}
	if Of[int]() != Int64 || Of[F16]() != Float16 || OfValue("x") != Invalid {
		t.Error("Of is wrong")
	}
}
