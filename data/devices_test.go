package data_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// With several devices a loader puts each one's part of a batch there, ahead of the loop, and
// a batch that is freed leaves nothing behind.
func TestLoaderForSeveralDevices(t *testing.T) {
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	x := locus.Arange(23*3).Reshape(23, 3).Cast(locus.Float32)
	set, err := data.NewTensorDataset(x, locus.Arange(23))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := data.NewLoader(set, data.Options{BatchSize: 11, Shuffle: true, Key: locus.NewKey(1)})
	if err != nil {
		t.Fatal(err)
	}
	for _, devices := range [][]locus.Device{gpus, {gpus[0], locus.CPU(), gpus[1]}, {locus.CPU(), locus.CPU()}} {
		l, err := plain.With(func(o *data.Options) { o.Devices = devices })
		if err != nil {
			t.Fatal(err)
		}
		before := gpus[0].MemoryStats().InUse
		var want []*data.Batch
		for b, err := range plain.Epoch(0) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, b)
		}
		i := 0
		for b, err := range l.Epoch(0) {
			if err != nil {
				t.Fatal(err)
			}
			first := 0
			for k, p := range b.Parts { // the last batch has one example: only the first device has a part
				if p.First != first || (p.Size == 0) != (len(p.Fields) == 0) {
					t.Fatalf("%v: part %d of batch %d: %+v", devices, k, i, p)
				}
				for f, x := range p.Fields {
					if x.Device() != devices[k] || !slices.Equal(values(x), values(want[i].Fields[f].Narrow(0, first, first+p.Size))) {
						t.Errorf("%v: field %d of part %d of batch %d is %v", devices, f, k, i, x)
					}
				}
				first += p.Size
			}
			if first != b.Size || b.Size != want[i].Size || b.Fields != nil {
				t.Errorf("%v: batch %d: %+v", devices, i, b)
			}
			b.Free()
			i++
		}
		if i != 3 {
			t.Errorf("%d batches", i)
		}
		if now := gpus[0].MemoryStats().InUse; now != before {
			t.Errorf("%v: %d bytes are left", devices, now-before)
		}
	}
	odd := data.Map(set, func(batch []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		return []*locus.Tensor{batch[0], locus.Ones(2)}
	})
	l, err := data.NewLoader(odd, data.Options{BatchSize: 11, Devices: gpus})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range l.Epoch(0) {
		if !errors.Is(err, locus.ErrShape) {
			t.Error(err)
		}
	}
	if _, err := plain.With(func(o *data.Options) { o.Devices = []locus.Device{locus.GPU(999)} }); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
}

func values(x *locus.Tensor) []string {
	return []string{fmt.Sprint(x.Shape(), locus.ToSlice[float32](x.To(locus.CPU()).Cast(locus.Float32)))}
}
