package train_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train"
)

// On a real GPU two ranks train as one does alone, with dropout, crops, noise made on the
// device, synchronized BatchNorm and a sharded optimizer, and their masks are those of the
// CPU.
func TestCardPlaces(t *testing.T) {
	if err := locus.WhyNoGPU(); err != nil {
		t.Skip("not run, needs an NVIDIA GPU:", err)
	}
	card := locus.GPU(0)
	if card == gpus[0] {
		t.Skip("not run: GPU 0 is a virtual one")
	}
	for _, p := range [][2]int{{0, 7}, {1, 5}, {3, 4}, {6, 1}} { // of 7 examples
		for _, row := range [][]int{{}, {3}, {5, 7}, {1025}} {
			k := locus.NewKey(3)
			whole, part := append([]int{7}, row...), append([]int{p[1]}, row...)
			want := locus.CPU().Key(k).Rand(whole...).Narrow(0, p[0], p[0]+p[1])
			if got := card.Key(k.Part(p[0], p[1])).Rand(part...).To(locus.CPU()); got.Eq(want).All().Item() != 1 {
				t.Errorf("examples %d to %d of shape %v are others than on the CPU", p[0], p[0]+p[1], row)
			}
		}
	}
	noise := train.PrepareBatch(func(b *train.Batch) error {
		x := b.Fields[0]
		b.Fields[0] = x.Add(x.Device().Key(b.Key).Randn(x.Shape()...).Mul(0.1))
		return nil
	})
	set := train.Data{Train: images(t, 49), Validation: images(t, 20), BatchSize: 12} // the last batch has 1
	for name, c := range map[string]struct {
		build func(uint64) *train.Supervised
		opts  []train.Option
	}{
		"draws":     {drawing, []train.Option{noise}},
		"eager":     {drawing, []train.Option{noise, train.Compile(false)}},
		"BatchNorm": {residual, []train.Option{train.SyncBatchNorm(), train.ShardOptimizer(), train.ClipGradients(1)}},
	} {
		opts := append([]train.Option{train.MaxEpochs(2)}, c.opts...)
		onCPU := alone(t, c.build(3), set, append(slices.Clip(opts), train.Devices(locus.CPU()))...)
		one := alone(t, c.build(3), set, append(slices.Clip(opts), train.Devices(card))...)
		near(t, name+": the card beside the CPU", onCPU, one, 5e-3)
		two := sameEverywhere(t, onRanks(t, []locus.Device{card, card}, func(int) (*train.Supervised, train.Data, []train.Option) { return c.build(3), set, opts }))
		near(t, name+": two ranks", one, two, 2e-3)
		t.Logf("%s: CPU %v, card %v, two ranks %v; not compiled: %q", name, onCPU.report.Last().Train, one.report.Last().Train, two.report.Last().Train, two.report.Uncompiled)
	}
}
