package cpu

import (
	"math"
	"sort"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Ops on lists of tensors. All tensors of a list share one parallel loop: a network
// has many small ones, and a loop for each would cost more than its arithmetic.
func init() {
	for _, d := range dtype.Floats.List() {
		register(op.ScaleAll, d, scaleAll)
		register(op.CastAll, d, castAll)
	}
	register(op.GlobalNorm, dtype.Float32, globalNorm(vec.SumSqF32))
	register(op.GlobalNorm, dtype.Float64, globalNorm(vec.SumSqF64))
	for _, h := range halfTypes {
		register(op.GlobalNorm, h.dtype, h.globalNorm)
	}
}

// result returns result i of a call.
func result(c *backend.Call, i int) *backend.View {
	if i == 0 {
		return &c.Out
	}
	return &c.More[i-1]
}

// each runs the kernel of a single op for each tensor of a list; call says what it
// sees of tensor i. Large ones divide the work further.
func each(n int, call func(i int) *backend.Call) error {
	failures := make([]error, n)
	pool.For(n, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c := call(i)
			failures[i] = table[c.Op][c.KernelType()](c)
		}
	})
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func scaleAll(c *backend.Call) error {
	n := len(c.In) - 1
	factor := c.In[n]
	return each(n, func(i int) *backend.Call {
		f := factor
		f.Shape, f.Strides = c.In[i].Shape, make([]int, len(c.In[i].Shape))
		return &backend.Call{Op: op.Mul, In: []backend.View{c.In[i], f}, Out: *result(c, i)}
	})
}

func castAll(c *backend.Call) error {
	return each(len(c.In), func(i int) *backend.Call {
		return &backend.Call{Op: op.CastTo, Attrs: c.Attrs, In: c.In[i : i+1], Out: *result(c, i)}
	})
}

// packed returns the elements of an operand in order, copied first if they do not lie in
// order.
func packed[T any](v *backend.View) []T {
	n := v.Elements()
	if n == 0 {
		return nil
	}
	if v.Contiguous() {
		return elements[T](v, n)
	}
	dst := make([]T, n)
	out := backend.View{Block: &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(&dst[0])}}, Shape: v.Shape, DType: v.DType}
	table[op.Copy][v.DType](&backend.Call{Op: op.Copy, In: []backend.View{*v}, Out: out}) // copies do not fail
	return dst
}

// joined is a list of tensors as one row of elements.
type joined struct {
	ends []int // where each tensor ends
}

func (l *joined) add(n int) {
	if k := len(l.ends); k > 0 {
		n += l.ends[k-1]
	}
	l.ends = append(l.ends, n)
}

// run calls f for all elements, at most `most` of one tensor at a time, in one
// parallel loop. Where the pieces begin does not depend on the number of threads.
func (l *joined) run(grain, most int, f func(tensor, lo, hi int)) {
	if len(l.ends) == 0 {
		return
	}
	pool.For(l.ends[len(l.ends)-1], grain, func(lo, hi int) {
		for i := sort.SearchInts(l.ends, lo+1); lo < hi; i++ {
			first := 0
			if i > 0 {
				first = l.ends[i-1]
			}
			for end := min(hi, l.ends[i]); lo < end; {
				to := min(lo+most, end)
				f(i, lo-first, to-first)
				lo = to
			}
		}
	})
}

// globalNorm adds squares in float64: squares of finite float32 are finite. Parts are
// added in order.
func globalNorm[T any](sumSq func([]T) float64) kernel {
	return func(c *backend.Call) error {
		tensors := make([][]T, len(c.In))
		type section struct{ tensor, lo, hi int }
		var sections []section
		total := 0
		for i := range c.In {
			tensors[i] = packed[T](&c.In[i])
			n := len(tensors[i])
			total += n
			for lo := 0; lo < n; lo += part {
				sections = append(sections, section{i, lo, min(lo+part, n)})
			}
		}
		sums := make([]float64, len(sections))
		grain := 1
		if total > 0 {
			grain = max(1, grainCheap*len(sections)/total)
		}
		pool.For(len(sections), grain, func(lo, hi int) {
			for i, s := range sections[lo:hi] {
				x := tensors[s.tensor][s.lo:s.hi]
				for at := 0; at < len(x); at += longPiece {
					sums[lo+i] += sumSq(x[at:min(at+longPiece, len(x))])
				}
			}
		})
		sum := 0.0
		for _, s := range sums {
			sum += s
		}
		if norm := math.Sqrt(sum); c.Out.DType == dtype.Float64 {
			elements[float64](&c.Out, 1)[0] = norm
		} else {
			elements[float32](&c.Out, 1)[0] = float32(norm)
		}
		return nil
	}
}

func sumSqHalf[H half]() func([]H) float64 {
	up, _ := conversions[H]()
	return func(x []H) (sum float64) {
		s, room := scratchOf[float32](piece)
		for lo := 0; lo < len(x); lo += piece {
			hi := min(lo+piece, len(x))
			up(room[:hi-lo], x[lo:hi])
			sum += vec.SumSqF32(room[:hi-lo])
		}
		s.free()
		return sum
	}
}
