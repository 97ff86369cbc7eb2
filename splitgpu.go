package locus

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cuda"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/virtual"
)

// SplitGPU divides a GPU into logical ones with the given bytes of memory each, so
// that a program for several GPUs can run on one. Each has its own stream, limit
// and counters, and mixing them fails as it does with separate GPUs. The first
// takes d's place, the others are numbered after the GPUs that are there. It must
// be done before anything is created on d. The environment variable
// LOCUS_SPLIT_GPUS=2 divides every card into two equal ones at the start of a
// program.
func SplitGPU(d Device, memory ...int64) ([]Device, error) {
	var shares []Device
	err := Try(func() {
		p := d.open("SplitGPU")
		if p.host {
			failf("SplitGPU", ErrDevice, nil, "%s is not a GPU", d)
		}
		if len(memory) < 2 {
			failf("SplitGPU", ErrArgument, nil, "%d parts; want the bytes of at least two", len(memory))
		}
		if p.pool.Stats().Allocations > 0 {
			fail("SplitGPU", &op.Problem{Kind: ErrArgument, Msg: d.String() + " is in use: tensors were created on it", Fix: "split it at the start of the program, or set LOCUS_SPLIT_GPUS"})
		}
		parts, err := splitBackend(p.backend, memory)
		if err != nil {
			failf("SplitGPU", ErrArgument, nil, "%v", err)
		}
		machine.mu.Lock()
		list := slices.Clone(*machine.gpus.Load())
		list[d.index] = newPlace(d, parts[0])
		machine.gpus.Store(&list)
		machine.mu.Unlock()
		shares = append([]Device{d}, addGPUs(parts[1:])...)
	})
	return shares, err
}

func splitBackend(b backend.Device, memory []int64) ([]backend.Device, error) {
	parts := make([]backend.Device, len(memory))
	switch b := b.(type) {
	case *cuda.Device:
		shares, err := b.Split(memory...)
		if err != nil {
			return nil, err
		}
		for i, s := range shares {
			parts[i] = s
		}
	case *virtual.Device:
		total, _ := b.Memory()
		for i, m := range memory {
			if total -= m; m <= 0 || total < 0 {
				return nil, fmt.Errorf("parts of %v bytes do not fit", memory)
			}
			parts[i] = virtual.New(b.Index(), m)
		}
	default:
		return nil, fmt.Errorf("%s cannot be divided", b.Info().Name)
	}
	return parts, nil
}

// splitFromEnv divides every real GPU as LOCUS_SPLIT_GPUS says.
func splitFromEnv(found []backend.Device) []backend.Device {
	s := os.Getenv("LOCUS_SPLIT_GPUS")
	if s == "" {
		return found
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 64 {
		fmt.Fprintf(os.Stderr, "locus: LOCUS_SPLIT_GPUS=%q is not a number of parts such as 2; no GPU is divided\n", s)
		return found
	}
	var all []backend.Device
	for _, b := range found {
		total, _ := b.Memory()
		parts, err := splitBackend(b, slices.Repeat([]int64{total / int64(n)}, n))
		if n == 1 || err != nil {
			parts = []backend.Device{b}
		}
		all = append(all, parts...)
	}
	return all
}
