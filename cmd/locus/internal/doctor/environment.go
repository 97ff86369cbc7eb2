package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/cpu/vec"
)

// known are the variables that Locus reads.
var known = []string{"LOCUS_VIRTUAL_GPUS", "LOCUS_LOSE_GPU", "LOCUS_SPLIT_GPUS", "LOCUS_BLAS", "LOCUS_THREADS", "LOCUS_CPU_LEVEL", "LOCUS_CUDA", "LOCUS_CUDA_BLOCKING", "LOCUS_NVML", "LOCUS_CUBLAS", "LOCUS_CUBLASLT",
	"LOCUS_CUDNN", "LOCUS_CUDNN_TIMING", "LOCUS_CACHE", "LOCUS_CUFFT", "LOCUS_CUSOLVER", "LOCUS_COLLECTIVE", "LOCUS_MPI", "LOCUS_NCCL", "LOCUS_TOKEN", "LOCUS_RESTART", "LOCUS_DEBUG", "LOCUS_FUSE", "LOCUS_KERNEL_CACHE", "LOCUS_LAYOUT"}

// values finds variables of Locus with a wrong value or an unknown name.
func (s System) values() (checks []Check) {
	warn := func(name, found, fix string) {
		checks = append(checks, Check{Name: name, Status: Warning, Found: found, Fix: fix})
	}
	if v := strings.TrimSpace(s.Env("LOCUS_CPU_LEVEL")); v != "" {
		var names []string
		for _, l := range vec.Levels() {
			names = append(names, l.String())
		}
		if !slices.Contains(names, strings.ToLower(v)) {
			warn("LOCUS_CPU_LEVEL", fmt.Sprintf("%q is not a level of this processor: ignored", v), "set it to "+strings.Join(names, ", ")+", or unset it")
		}
	}
	if v := strings.TrimSpace(s.Env("LOCUS_THREADS")); v != "" {
		if n, err := strconv.Atoi(v); err != nil || n < 1 {
			warn("LOCUS_THREADS", fmt.Sprintf("%q is not a number of threads: ignored", v), "set it to 1 or more, or unset it")
		}
	}
	if v := strings.TrimSpace(s.Env("LOCUS_VIRTUAL_GPUS")); v != "" && !virtualGPUs(v) {
		warn("LOCUS_VIRTUAL_GPUS", fmt.Sprintf("%q is not a number of GPUs: none were added", v), "set it to a number such as 2, or 2:512MiB")
	}
	for _, e := range s.Environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "LOCUS_") || slices.Contains(known, name) || strings.HasPrefix(name, "LOCUS_TEST_") {
			continue
		}
		fix := "unset it; Locus reads " + strings.Join(known, ", ")
		var ends []string
		for _, k := range known {
			ends = append(ends, strings.TrimPrefix(k, "LOCUS_"))
		}
		if c := text.Closest(strings.TrimPrefix(name, "LOCUS_"), ends); c != "" {
			fix = "did you mean LOCUS_" + c + "?"
		}
		warn(name, "Locus knows no such variable: ignored", fix)
	}
	return checks
}

// virtualGPUs reports whether v is "2" or "2:512MiB".
func virtualGPUs(v string) bool {
	count, size, hasSize := strings.Cut(v, ":")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 0 || n > 1024 { // as many as a program may have
		return false
	}
	if hasSize {
		bytes, err := locus.ParseBytes(size)
		return err == nil && bytes > 0
	}
	return true
}
