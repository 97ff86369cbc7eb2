// Package vec holds vector primitives on contiguous slices: arithmetic,
// comparisons, elementary functions, reductions and conversions.
//
// Each function runs on one goroutine (callers divide work with package pool),
// takes its length from dst (or, in a reduction, from its first operand) and
// panics if another operand is shorter. dst may be the same slice as an
// operand but must not overlap one in any other way.
//
// Float32 elementary functions are within 2 ulp of the exact result over the
// whole range unless their comment says otherwise, and treat NaN, infinities,
// signed zeros and denormals as IEEE 754 and C do. Sums, dot products and the
// like over float32 are accumulated in float64 and returned as float64, so the
// only error that matters is that of the caller's final rounding.
//
// There is assembly for amd64 (AVX2, AVX-512) and arm64 (NEON), generated from
// the same descriptions in package asm, and plain Go for everything else. The
// Stream versions and what computes on bfloat16 have none on arm64, conversions of
// int64 and elementary functions of float64 nowhere.
package vec

//go:generate sh -c "cd ../asm && go run ."

import (
	"fmt"
	"os"
	"strings"
)

// A Level is the instruction set the package uses.
type Level uint8

const (
	Generic    Level = iota // plain Go
	AVX2                    // AVX2, FMA and F16C
	AVX512                  // AVX-512 F, BW, DQ and VL
	AVX512BF16              // AVX512 and its products of bfloat16; vector code is AVX512's
	AMX                     // AVX512BF16 and tiles of bfloat16; vector code is AVX512's
	NEON                    // of arm64
)

func (l Level) String() string {
	switch l {
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	case AVX512BF16:
		return "avx512bf16"
	case AMX:
		return "amx"
	case NEON:
		return "neon"
	}
	return "generic"
}

// Products returns the level in use for matrix products: the best the CPU and
// operating system support, or the one named by the environment variable
// LOCUS_CPU_LEVEL (generic, avx2, avx512, avx512bf16 or amx; on arm64 generic
// or neon). A level the machine lacks is ignored.
func Products() Level { return chosen }

// CPU returns the level in use for vector code: Generic, AVX2, AVX512 or NEON.
func CPU() Level { return level }

// Best returns the highest level of vector code this machine supports,
// whatever is in use.
func Best() Level { return vectors(detect()) }

// vectors is the level of vector code that goes with a level of products.
func vectors(l Level) Level {
	if l == NEON {
		return l
	}
	return min(l, AVX512)
}

// Levels returns the levels this machine supports, in ascending order.
func Levels() []Level {
	var l []Level
	for _, k := range known {
		if k <= detect() {
			l = append(l, k)
		}
	}
	return l
}

func choose(best Level) Level {
	name := strings.ToLower(strings.TrimSpace(os.Getenv("LOCUS_CPU_LEVEL")))
	if name == "" {
		return preferred(best)
	}
	var names []string
	for _, l := range known {
		if l.String() == name {
			if l > best {
				fmt.Fprintf(os.Stderr, "locus: LOCUS_CPU_LEVEL=%s is not supported by this CPU, using %v\n", name, preferred(best))
				return preferred(best)
			}
			return l
		}
		names = append(names, l.String())
	}
	fmt.Fprintf(os.Stderr, "locus: LOCUS_CPU_LEVEL=%s is not one of %s, using %v\n", name, strings.Join(names, ", "), preferred(best))
	return preferred(best)
}
