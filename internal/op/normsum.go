package op

// Normalizations of rows with a sum before or behind them, which passes over programs
// make of two ops. Each result is rounded as the result of the op alone would be.
//
// AddNormalize is Normalized of a sum: its first two operands are added, and the others
// are those of Normalized; its second result is the sum. NormalizeGradAdd adds its last
// operand to the first result of NormalizeGrad. The attribute of both is Normalize. All
// operands but parameters and statistics have one shape.

func init() {
	for _, id := range []ID{AddNormalize, NormalizeGradAdd} {
		table[id].ID = id
	}
}

var passNames = map[ID]string{FusedOps: "fused", AddNormalize: "add_normalize", NormalizeGradAdd: "normalize_grad_add", Begin: "begin", Await: "await"}
