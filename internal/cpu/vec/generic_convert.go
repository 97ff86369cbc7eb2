package vec

import "math"

func f16ToF32Go(dst []float32, a []uint16) {
	for i := range dst {
		dst[i] = f16to32(a[i])
	}
}

func f32ToF16Go(dst []uint16, a []float32) {
	for i := range dst {
		dst[i] = f32to16(a[i])
	}
}

func bf16ToF32Go(dst []float32, a []uint16) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(a[i]) << 16)
	}
}

func mulSBF16Go(dst []uint16, a []float32, s float32) {
	for i := range dst {
		dst[i] = f32toBF16(a[i] * s)
	}
}

func f32ToBF16Go(dst []uint16, a []float32) {
	for i := range dst {
		dst[i] = f32toBF16(a[i])
	}
}

func f16to32(h uint16) float32 {
	sign, exp, man := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 31:
		if man != 0 {
			man |= 0x200 // a NaN becomes quiet
		}
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case 0:
		f := float32(man) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

func f32to16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13&0x3ff)
	case abs >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: a half denormal
		// Adding 0.5 puts the half's last place at float32's last place.
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

func f32toBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func u8ToF32Go(dst []float32, a []uint8) {
	for i := range dst {
		dst[i] = float32(a[i])
	}
}

func i32ToF32Go(dst []float32, a []int32) {
	for i := range dst {
		dst[i] = float32(a[i])
	}
}

func i64ToF32Go(dst []float32, a []int64) {
	for i := range dst {
		dst[i] = float32(a[i])
	}
}
