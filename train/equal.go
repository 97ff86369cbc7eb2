package train

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// ErrReplicas is the kind of error of ranks whose tensors are no longer equal to the bit.
var ErrReplicas = fmt.Errorf("replicas differ: %w", locus.ErrArgument)

// checkEqual compares the ranks' tensors by checksums.
func (r *run) checkEqual() error {
	if r.ranks == nil {
		return nil
	}
	l, _ := r.common()
	sums := make([]int64, len(l))
	for i, n := range l {
		h := sha256.New()
		if err := weights.Write(h, map[string]*locus.Tensor{"": n.t}, nil); err != nil {
			return err
		}
		sums[i] = int64(binary.LittleEndian.Uint64(h.Sum(nil)))
	}
	own := locus.CPU().From(sums)
	defer own.Free()
	joined, err := r.ranks.g.AllGather(r.ranks.ctx, own).Wait()
	if err != nil {
		return err
	}
	defer joined.Free()
	for at, sum := range locus.ToSlice[int64](joined) {
		if i := at % len(l); sum != sums[i] {
			r.ranks.settle() // the others see it too
			return &locus.Error{Kind: ErrReplicas, Op: "train.Fit", Msg: fmt.Sprintf("before epoch %d, %s of rank %d is not that of rank %d", r.epoch.Number+1, l[i].name, at/len(l), r.ranks.rank),
				Fix: "let callbacks do the same to the model on all ranks, and use devices of one kind"}
		}
	}
	return nil
}
