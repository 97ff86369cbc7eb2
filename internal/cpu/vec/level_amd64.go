package vec

import "golang.org/x/sys/cpu"

var level = choose(detect())

// detect relies on x/sys/cpu, which reports a vector extension only if the
// operating system saves its registers.
func detect() Level {
	x := cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !hasF16C():
		return Generic
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return AVX512
	}
	return AVX2
}

// hasF16C asks CPUID for the half-precision conversions, which x/sys/cpu does
// not report.
func hasF16C() bool

// tailMask is 8 words of ones and 8 of zeros: from 4*n bytes before its middle
// begins a mask of n 32-bit lanes.
//
//lint:ignore U1000 the assembly reads it
var tailMask = [16]uint32{
	0: ^uint32(0), 1: ^uint32(0), 2: ^uint32(0), 3: ^uint32(0),
	4: ^uint32(0), 5: ^uint32(0), 6: ^uint32(0), 7: ^uint32(0),
}
