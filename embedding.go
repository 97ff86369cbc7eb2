package locus

// Embedding looks up rows of weight (V, D): indices, integers of any shape,
// result (…, D). No gradient flows to the row named as padding. An index out of
// range is an [ErrIndex], on a GPU at the next wait.
func Embedding(weight, indices *Tensor, padding ...int) *Tensor {
	in := []*Tensor{weight, indices}
	checkOperands("Embedding", in)
	if len(weight.shape) != 2 {
		failf("Embedding", ErrShape, in, "weight has %d dimensions; want (V, D)", len(weight.shape))
	}
	if len(padding) > 1 || len(padding) == 1 && (padding[0] < 0 || padding[0] >= weight.shape[0]) {
		failf("Embedding", ErrArgument, in, "padding is %v; want at most one row of %d", padding, weight.shape[0])
	}
	defer naming("Embedding", in)
	rows := weight.take(0, indices)
	if len(padding) == 1 && rows.node != nil {
		rows = indices.Eq(padding[0]).Unsqueeze(-1).Where(rows.detach(), rows)
	}
	return rows
}
