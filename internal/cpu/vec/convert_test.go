package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestHalfToFloat(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		all, out := make([]uint16, 65536+5), make([]float32, 65536+5)
		for i := range all {
			all[i] = uint16(i)
		}
		F16ToF32(out, all)
		for i, x := range out {
			h := uint16(i)
			want := math.Ldexp(float64(h&0x3ff|0x400), int(h>>10&31)-25)
			if h>>10&31 == 0 {
				want = math.Ldexp(float64(h&0x3ff), -24)
			} else if h>>10&31 == 31 {
				if want = math.Inf(1); h&0x3ff != 0 {
					want = math.NaN()
				}
			}
			if h&0x8000 != 0 {
				want = -want
			}
			if !same(x, float32(want)) || math.Signbit(float64(x)) != (h&0x8000 != 0) {
				t.Fatalf("%#04x is %v, want %v", h, x, want)
			}
		}
		back := make([]uint16, len(all))
		F32ToF16(back, out)
		for i := range back {
			if back[i] != all[i] && out[i] == out[i] {
				t.Fatalf("%#04x came back as %#04x", all[i], back[i])
			}
		}
		BF16ToF32(out, all)
		F32ToBF16(back, out)
		for i := range back {
			if math.Float32bits(out[i]) != uint32(all[i])<<16 || back[i] != all[i] && out[i] == out[i] {
				t.Fatalf("bfloat16 %#04x: %v, back %#04x", all[i], out[i], back[i])
			}
		}
	})
}

// TestFloatToHalf checks rounding against the two neighbors in float64.
func TestFloatToHalf(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	x := append([]float32(nil), samples()...)
	for i := range 100000 {
		if raceEnabled && i == 1000 {
			break
		}
		// Ties and their neighbors.
		h := uint32(r.IntN(0x7c00))
		b := math.Float32bits(f16to32(uint16(h)))
		x = append(x, math.Float32frombits(b|0x1000), math.Float32frombits(b|0x1001), math.Float32frombits(b|0xfff))
	}
	eachLevel(t, func(t *testing.T) {
		half, bf := make([]uint16, len(x)), make([]uint16, len(x))
		F32ToF16(half, x)
		F32ToBF16(bf, x)
		for i, v := range x {
			if v != v {
				if g := f16to32(half[i]); g == g {
					t.Fatalf("NaN became %v", g)
				}
				if g := math.Float32frombits(uint32(bf[i]) << 16); g == g {
					t.Fatalf("NaN became %v", g)
				}
				continue
			}
			nearest(t, v, half[i], 0x7c00, 65536, func(h uint16) float64 { return float64(f16to32(h)) })
			nearest(t, v, bf[i], 0x7f80, 0x1p128, func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) })
		}
	})
}

// nearest fails if a neighbor of h is closer to v, or as close and even. The
// value after the largest stands for infinity.
func nearest(t *testing.T, v float32, h, inf uint16, top float64, val func(uint16) float64) {
	t.Helper()
	abs := math.Abs(float64(v))
	at := func(b uint16) float64 {
		if b == inf {
			return top
		}
		return val(b)
	}
	b := h & 0x7fff
	if math.Signbit(float64(v)) != (h&0x8000 != 0) || b > inf {
		t.Fatalf("%v became %#04x", v, h)
	}
	d := math.Abs(at(b) - abs)
	if b == inf && abs > top {
		return
	}
	for _, o := range []uint16{b - 1, b + 1} {
		if o > inf || b == 0 && o != 1 {
			continue
		}
		if e := math.Abs(at(o) - abs); e < d || e == d && b&1 == 1 {
			t.Fatalf("%v became %#04x, %#04x is nearer", v, h, o)
		}
	}
}

func TestIntegersToFloat(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(61, 62))
		for _, n := range lengths() {
			u, i32, i64 := make([]uint8, n), make([]int32, n), make([]int64, n)
			for i := range u {
				u[i], i32[i], i64[i] = uint8(r.Uint32()), int32(r.Uint32()), int64(r.Uint64())
			}
			d := make([]float32, n)
			U8ToF32(d, u)
			for i := range d {
				if d[i] != float32(u[i]) {
					t.Fatal("u8", n, i)
				}
			}
			I32ToF32(d, i32)
			for i := range d {
				if d[i] != float32(i32[i]) {
					t.Fatal("i32", n, i)
				}
			}
			I64ToF32(d, i64)
			for i := range d {
				if d[i] != float32(i64[i]) {
					t.Fatal("i64", n, i)
				}
			}
		}
	})
}
