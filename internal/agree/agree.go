// Package agree lets the ranks of a group tell each other small things that are not tensors.
// All ranks call its functions in the same order, as they do with collectives.
package agree

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// Max returns the largest v of all ranks.
func Max(ctx context.Context, g *collective.Group, v int64) (int64, error) {
	own := locus.CPU().From([]int64{v})
	defer own.Free()
	most, err := g.AllReduce(ctx, own, collective.Max).Wait()
	if err != nil {
		return 0, err
	}
	defer most.Free()
	return locus.ToSlice[int64](most)[0], nil
}

// Bytes returns what the ranks pass, in the ranks' order.
func Bytes(ctx context.Context, g *collective.Group, b []byte) ([][]byte, error) {
	own := locus.CPU().From([]int64{int64(len(b))})
	defer own.Free()
	lengths, err := g.AllGather(ctx, own).Wait()
	if err != nil {
		return nil, err
	}
	defer lengths.Free()
	longest := int64(0)
	sizes := locus.ToSlice[int64](lengths)
	for _, n := range sizes {
		longest = max(longest, n)
	}
	out := make([][]byte, len(sizes))
	if longest == 0 {
		return out, nil
	}
	padded := make([]byte, longest)
	copy(padded, b)
	x := locus.CPU().From(padded)
	defer x.Free()
	joined, err := g.AllGather(ctx, x).Wait()
	if err != nil {
		return nil, err
	}
	defer joined.Free()
	all := locus.ToSlice[uint8](joined)
	for i, n := range sizes {
		out[i] = all[int64(i)*longest : int64(i)*longest+n]
	}
	return out, nil
}

// All returns the values of all ranks in rank order. Package gob must be able to
// encode them.
func All[T any](ctx context.Context, g *collective.Group, v T) ([]T, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	parts, err := Bytes(ctx, g, b.Bytes())
	if err != nil {
		return nil, err
	}
	out := make([]T, len(parts))
	for i, p := range parts {
		if err := gob.NewDecoder(bytes.NewReader(p)).Decode(&out[i]); err != nil {
			return nil, fmt.Errorf("what rank %d says cannot be read: %w", i, err)
		}
	}
	return out, nil
}
