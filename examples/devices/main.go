// Command devices shows what it means that every tensor has a place: it lists
// the devices, creates tensors on them, fails on mixing two, moves one and adds.
// Where the machine has fewer than two GPUs, virtual ones take their place.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/locusml/locus"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	if n := locus.NumGPUs(); n < 2 {
		fmt.Fprintf(w, "%d GPU(s) found; adding virtual ones that live in main memory.\n\n", n)
		locus.AddVirtualGPUs(2-n, 256<<20)
	}

	fmt.Fprintln(w, "The devices of this machine:")
	for _, d := range locus.Devices() {
		fmt.Fprintln(w, " ", d)
	}
	fmt.Fprintln(w, "\nTryGPU() is", locus.TryGPU(), "- TryGPU(10) is", locus.TryGPU(10), "- TryAllGPUs() is", locus.TryAllGPUs())

	fmt.Fprintln(w, "\nTensors are made on the CPU unless a device makes them:")
	x := locus.From([]float32{1, 2, 3})
	fmt.Fprintln(w, x)
	a := locus.TryGPU().Ones(2, 3)
	b := locus.TryGPU(1).Rand(2, 3)
	fmt.Fprintln(w, a)
	fmt.Fprintln(w, b)

	fmt.Fprintln(w, "\nTwo devices do not mix:")
	fmt.Fprintln(w, locus.Try(func() { a.Add(b) }))

	fmt.Fprintln(w, "\nSo say where to compute. To copies, and is free when there is nothing to do:")
	c := a.To(b.Device())
	fmt.Fprintln(w, b.Add(c))
	fmt.Fprintln(w, "c.To(c.Device()) is c:", c.To(c.Device()) == c, "- CopyTo always copies:", c.CopyTo(c.Device()) != c)

	fmt.Fprintln(w, "\nThe ledger saw every copy:")
	fmt.Fprint(w, locus.Ledger())
	fmt.Fprintln(w, "\nAnd what the devices hold:")
	for _, d := range append([]locus.Device{locus.CPU()}, locus.TryAllGPUs()...) {
		fmt.Fprintln(w, " ", d.MemoryStats())
	}
}
