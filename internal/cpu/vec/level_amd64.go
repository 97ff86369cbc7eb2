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
