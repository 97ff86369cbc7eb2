package data_test

import (
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Batches go to a GPU by way of page-locked memory that is used again and again: locking
// memory takes as long as many steps.
func TestPinnedBatchesAreReused(t *testing.T) {
	gpus := append(locus.AddVirtualGPUs(1, 0), locus.TryGPU()) // and the real one, if there is one
	for _, d := range gpus {
		if !d.IsGPU() {
			continue
		}
		const rows, batch = 16 * 20, 16
		x := locus.Randn(rows, 8000) // a batch is 512 KB
		set, err := data.NewTensorDataset(x, locus.Arange(rows))
		if err != nil {
			t.Fatal(err)
		}
		l, err := data.NewLoader(set, data.Options{BatchSize: batch, Shuffle: true, Device: d, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		held := func() int64 {
			p := locus.CPU().MemoryStats().Pinned
			return p.InUse + p.Cached
		}
		before := held()
		for epoch := range 5 {
			for b, err := range l.Epoch(epoch) {
				if err != nil {
					t.Fatal(err)
				}
				b.X().Mul(2).Free()
				b.Free()
				if err := d.Synchronize(); err != nil { // a loop that runs ahead has more on their way
					t.Fatal(err)
				}
			}
		}
		// Those that are made ahead, that are on their way, and that are used.
		if now, most := held(), before+12*batch*8000*4; now > most || now == 0 {
			t.Errorf("%s: %d bytes of page-locked memory for 100 batches, before %d; up to %d would do", d, now, before, most)
		}
	}
}

// With Pin, batches that stay on the CPU are page-locked where there is a GPU, and equal
// to others.
func TestPin(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 0)[0]
	x := locus.Randn(64, 8000)
	set, err := data.NewTensorDataset(x, locus.Arange(64))
	if err != nil {
		t.Fatal(err)
	}
	l, err := data.NewLoader(set, data.Options{BatchSize: 16, Pin: true})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range l.Epoch(0) {
		if err != nil {
			t.Fatal(err)
		}
		if !b.X().IsPinned() || b.X().Device() != locus.CPU() {
			t.Error("the input is not pinned")
		}
		if b.Y().IsPinned() {
			t.Error("a few numbers are pinned")
		}
		half := b.X().Chunk(2, 0)[1]
		if d := half.To(gpu).Sub(x.Narrow(0, b.Index*16+8, b.Index*16+16).To(gpu)).Abs().Max().Item(); d != 0 {
			t.Errorf("batch %d differs by %v", b.Index, d)
		}
		b.Free()
	}
}
