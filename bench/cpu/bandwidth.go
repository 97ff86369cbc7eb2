package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/cpu/pool"
)

// moved is how many bytes a case must move for each of its 16M elements: it
// reads its operands and writes its result once.
var moved = []struct {
	name  string
	bytes int
}{
	{"add_16m", 12}, {"mul_add_16m", 16}, {"relu_16m", 8}, {"exp_16m", 8}, {"tanh_16m", 8}, {"sigmoid_16m", 8}, {"gelu_16m", 8}, {"log_16m", 8},
	{"expression_compiled", 12}, {"sum_16m", 4}, {"max_16m", 4}, {"row_sum_16m", 4}, {"col_sum_16m", 4}, {"softmax_16m", 8}, {"layernorm_16m", 8}, {"transpose_16m", 8},
}

// bandwidth prints what each case (of those named, if any) moves in a second
// beside a plain copy, the two taking turns.
func bandwidth(names, threads string, seconds float64) {
	const n, rounds = 16 << 20, 3
	src, dst := hostMemory(4*n), hostMemory(4*n)
	plainCopy := func() {
		pool.For(len(dst), 1<<20, func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) })
	}
	fmt.Println("| case | threads | time | bandwidth | plain copy | share |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, m := range moved {
		if names != "" && !slices.Contains(strings.Split(names, ","), m.name) {
			continue
		}
		f := cases[m.name]()
		for t := range strings.SplitSeq(threads, ",") {
			setThreads(t)
			op, copied := 1e9, 1e9
			for range rounds {
				op = min(op, median(repeat(f, seconds/rounds)))
				copied = min(copied, median(repeat(plainCopy, seconds/rounds)))
			}
			speed, plain := float64(m.bytes)*n/op/1e9, 8*n/copied/1e9
			fmt.Printf("| %s | %d | %.2f ms | %.1f GB/s | %.1f GB/s | %.2f |\n", m.name, pool.Threads(), op*1e3, speed, plain, speed/plain)
		}
	}
}

// hostMemory returns memory of the kind that tensors have, in use once already.
func hostMemory(size int) []byte {
	r, err := cpu.Open().Allocate(size)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b := unsafe.Slice((*byte)(r.Ptr), r.Size)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
