package collective

import (
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
)

// Op says how the elements of all ranks become one.
type Op uint8

// The ops. Sums and products of integers wrap. Max and Min of bools are "any" and
// "all". A NaN wins over every number, in the package's own engines; in MPI and NCCL Max and
// Min treat it as the library does.
const (
	Sum  Op = iota
	Mean    // of floating-point types
	Max
	Min
	Product
	numOps
)

// String returns "sum" and so on.
func (o Op) String() string {
	return op.EnumName("Op", int(o), "sum", "mean", "max", "min", "product")
}

// check reports whether elements of type d can be reduced by o.
func (o Op) check(d locus.DType) error {
	switch {
	case o >= numOps:
		return problem(locus.ErrArgument, "", "there is no op %d", uint8(o))
	case o == Mean && !d.IsFloat():
		return problem(locus.ErrDType, "cast to a floating-point type first, or divide the sum", "the mean of %s need not be an integer", d)
	case d == locus.Bool && o != Max && o != Min:
		return problem(locus.ErrDType, "use collective.Max for any and collective.Min for all, or cast to a type of numbers", "bools have no %s", o)
	}
	return nil
}

func problem(kind error, fix, format string, args ...any) error {
	return &op.Problem{Kind: kind, Msg: fmt.Sprintf(format, args...), Fix: fix}
}
