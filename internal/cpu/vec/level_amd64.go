package vec

import "golang.org/x/sys/cpu"

// known has the levels of this architecture, in ascending order.
var known = []Level{Generic, AVX2, AVX512, AVX512BF16, AMX}

// preferred is the level taken without being asked for by name. A level
// belongs here once this package's, gemm's and cpu's tests have passed on a
// machine that has it, and it was measured to be faster there. Without AMX,
// products of bfloat16 pairs take a Xeon twice as long as converting them and
// multiplying float32 does; no other CPU was measured.
func preferred(best Level) Level {
	if best == AVX512BF16 {
		return AVX512
	}
	return best
}

var (
	chosen = choose(detect())
	level  = vectors(chosen)
)

// detect relies on x/sys/cpu, which reports a vector extension only if the
// operating system saves its registers.
func detect() Level {
	x := cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !hasF16C():
		return Generic
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	case !x.HasAVX512BF16:
		return AVX512
	case !x.HasAMXTile || !x.HasAMXBF16 || !savesTiles():
		return AVX512BF16
	}
	return AMX
}

// savesTiles reports whether the operating system saves AMX's registers. On
// Linux a process must also ask for them before the first use.
func savesTiles() bool

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
