package op

// BatchKind is a way to compute an op for many slices at once.
type BatchKind uint8

// The kinds. The hidden axis counts the slices; an operand that does not have it is
// the same for all of them.
const (
	// BatchView: there is nothing to compute, or nothing that could have the axis. A
	// view of all slices is the same view of one, whatever lies in front.
	BatchView BatchKind = iota + 1
	// BatchBroadcast: the hidden axis comes in front of as many axes as the largest
	// slice has; the op broadcasts the rest.
	BatchBroadcast
	// BatchLead: every operand gets the hidden axis in front, and the attributes count
	// their axes from behind it.
	BatchLead
	// BatchFold: the hidden axis and the first axis of every operand become one. So do
	// the results' axes.
	BatchFold
	// BatchOwn: package locus has a function for it.
	BatchOwn
	// BatchComposed: the op's composition is computed instead.
	BatchComposed
	// BatchLoop: one slice is computed after the other.
	BatchLoop
)

func (k BatchKind) String() string {
	return EnumName("BatchKind", int(k), "", "view", "broadcast", "lead", "fold", "own", "composed", "loop")
}

// Batch says how an op computes many slices at once. Where its conditions do not
// hold, the op's composition is computed, or one slice after the other.
type Batch struct {
	Kind BatchKind

	// Attrs returns the attributes for operands with the hidden axis, and false if the
	// rule does not hold for a. Nil means that they stay as they are.
	Attrs func(a Attrs) (Attrs, bool)

	// Shared reports whether operand i stays as it is and must be the same for all
	// slices: a weight, say. Nil means that no operand is.
	Shared func(a Attrs, i int) bool
}

// familyBatch are the rules of ops that state none.
var familyBatch = map[Family]Batch{
	ViewFamily:    {Kind: BatchView},
	CreateFamily:  {Kind: BatchView},
	UnaryFamily:   {Kind: BatchBroadcast},
	BinaryFamily:  {Kind: BatchBroadcast},
	CompareFamily: {Kind: BatchBroadcast},
	TernaryFamily: {Kind: BatchBroadcast},
	PoolFamily:    {Kind: BatchFold},
	ConvFamily:    {Kind: BatchOwn},
	MatMulFamily:  {Kind: BatchOwn},
	LinalgFamily:  {Kind: BatchLead}, // axes are counted from the end
	FourierFamily: leading,
}

// leading is the rule of ops along an axis, or over some of them.
var leading = Batch{Kind: BatchLead, Attrs: func(a Attrs) (Attrs, bool) {
	behind := func(d Dims) Dims {
		s := Dims{N: d.N + 1}
		copy(s.D[1:], d.D[:d.N])
		return s
	}
	switch a := a.(type) {
	case Axis:
		a.Axis++
		return a, true
	case Reduce:
		a.Axes <<= 1
		return a, true
	case Pad:
		a.Low, a.High, a.Interior = behind(a.Low), behind(a.High), behind(a.Interior)
		return a, a.Low.N <= MaxRank
	case Fourier:
		a.Axis++
		return a, true
	}
	return a, true
}}

// normalizing is the rule of the normalizations of rows, whose parameters stay as
// they are; weight is the index of the first parameter; statistics follow the last.
// Gradients of parameters would be added up over the slices.
func normalizing(weight int) Batch {
	return Batch{Kind: BatchLead,
		Attrs: func(a Attrs) (Attrs, bool) {
			n := a.(Normalize)
			n.From++
			n.Params[0]++
			n.Params[1]++
			return n, !n.GradWeight && !n.GradBias
		},
		Shared: func(a Attrs, i int) bool {
			n := a.(Normalize)
			if weight == 1 { // of the op itself
				return i >= 1
			}
			return i == weight && n.Weight
		}}
}

// behindFirst is the rule of ops whose operands but the first are parameters.
func behindFirst(kind BatchKind) Batch {
	return Batch{Kind: kind, Shared: func(_ Attrs, i int) bool { return i > 0 }}
}
