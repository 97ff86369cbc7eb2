package sample

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Domain is the range from which an operand's values come. Bools are drawn
// evenly from all domains, integers from the integers that come nearest to what
// the domain says.
type Domain uint8

// The domains.
const (
	Ordinary   Domain = iota // between -3 and 3
	Positive                 // between 0.1 and 4
	NonZero                  // between 0.4 and 3 with either sign
	Unit                     // between -0.95 and 0.95
	AboveOne                 // between 1.05 and 5
	Fraction                 // between 0.05 and 0.95
	Gentle                   // between 0.8 and 1.2, for long products
	OffGrid                  // away from integers and their halves
	Distinct                 // all different, a quarter apart, shuffled
	Halves                   // multiples of one half, zero and ties included
	Tenths                   // multiples of one tenth, which binary cannot represent: quotients near integers
	Few                      // -2, -1, 0, 1, 2: many ties
	Wide                     // magnitudes from 1e-6 to 1e6 (float16: 1e4); integers of the whole range
	Gaps                     // ordinary with some NaN and infinities
	Masked                   // ordinary with some -Inf, never the first
	Special                  // the edge cases one after the other, see specials
	SpecialRow               // the same, each repeated: with Special all pairs
	Extremes                 // the edge cases without the infinities
	Index                    // integers from 0 below the operand's limit
	Dominant                 // matrices: a large diagonal whose elements are apart, so that inverses are small and eigenvalues differ
	Saved                    // zeros, in place of what the op of this gradient saves
)

var domainNames = [...]string{"ordinary", "positive", "nonzero", "unit", "above one", "fraction", "gentle", "off grid", "distinct",
	"halves", "tenths", "few", "wide", "gaps", "masked", "special", "special rows", "extremes", "index", "dominant", "saved"}

func (v Domain) String() string { return op.EnumName("Domain", int(v), domainNames[:]...) }

func (v Domain) smooth() bool { return v <= Distinct || v == Index || v == Dominant || v == Saved }

// specials are the edge cases of a type: what is not a number, what is
// infinite, both zeros, the ends of the range, and where elementary functions
// overflow, underflow, change their algorithm or round halves.
func specials(d dtype.DType) (floats []float64, ints []int64) {
	switch d {
	case dtype.Bool:
		return nil, []int64{0, 1}
	case dtype.Uint8:
		return nil, []int64{0, 1, 2, 3, 7, 100, 127, 128, 255}
	case dtype.Int32:
		return nil, []int64{0, 1, -1, 2, -2, 3, -7, 31, 64, 1 << 24, math.MinInt32, math.MaxInt32}
	case dtype.Int64:
		return nil, []int64{0, 1, -1, 2, -2, 3, -7, 31, 64, 1 << 24, 1<<53 + 1, math.MinInt64, math.MaxInt64}
	}
	f := elem.OfFloat(d)
	tiny, normal, huge := f.Tiny, f.Normal, f.Max
	floats = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}
	for _, x := range []float64{tiny, 7 * tiny, normal, huge, 1, 0.5, 1.5, 2.5, 3, 1e-4, 0.75, 12.25, 88.5, 104, 720, 30000} {
		floats = append(floats, x, -x)
	}
	return floats, nil
}

// NumSpecials is the length of the list that Special goes through.
func NumSpecials(d dtype.DType) int {
	f, i := specials(d)
	return max(len(f), len(i))
}

// period is after how many elements the random numbers of large operands repeat,
// which saves time. It is prime, so that it does not line up with shapes.
const period = 4999

// numbers are what the values of one operand of n elements are made from.
type numbers struct {
	words       []uint64
	step, shift int // of the permutation i -> (i·step + shift) mod n
	n           int

	rows, columns int // of matrices
}

func newNumbers(key uint64, n int) *numbers {
	g := &numbers{words: make([]uint64, min(n, period)), n: n, step: int(key%1009) + n/2, shift: int(key >> 32 % 1000)}
	for i := 0; i < len(g.words); i += 2 { // as random.Word64, a block at a time
		c := random.Philox(key, uint64(i/2))
		g.words[i] = uint64(c[0]) | uint64(c[1])<<32
		if i+1 < len(g.words) {
			g.words[i+1] = uint64(c[2]) | uint64(c[3])<<32
		}
	}
	for n > 0 && gcd(g.step, n) != 1 {
		g.step++
	}
	return g
}

func (g *numbers) word(i int) uint64  { return g.words[i%period] }
func (g *numbers) shuffled(i int) int { return (i*g.step + g.shift) % g.n }

// float returns element i of an operand.
func (v Domain) float(d dtype.DType, g *numbers, i int) float64 {
	w := g.word(i)
	u := random.Uniform64(w)
	sign := float64(1)
	if w&1 == 1 {
		sign = -1
	}
	switch v {
	case Positive:
		return 0.1 + 3.9*u
	case NonZero:
		return sign * (0.4 + 2.6*u)
	case Unit:
		return 1.9*u - 0.95
	case AboveOne:
		return 1.05 + 3.95*u
	case Fraction:
		return 0.05 + 0.9*u
	case Gentle:
		return 0.8 + 0.4*u
	case OffGrid: // a quarter after a multiple of one half, give or take an eighth
		return math.Floor(12*u)/2 - 3 + 0.25 + 0.25*(math.Mod(12*u, 1)-0.5)
	case Distinct:
		return 0.25 * float64(g.shuffled(i)-g.n/2)
	case Halves:
		return math.Floor(17*u)/2 - 4
	case Tenths:
		return (math.Floor(41*u) - 20) / 10
	case Few:
		return math.Floor(5*u) - 2
	case Wide:
		if elem.OfFloat(d).Max < 1e6 {
			return sign * math.Pow(10, 10*u-6)
		}
		return sign * math.Pow(10, 12*u-6)
	case Gaps:
		switch w >> 1 % 24 {
		case 0:
			return math.NaN()
		case 1, 2:
			return math.Inf(int(sign))
		}
	case Masked:
		if i > 0 && w>>1%3 == 0 {
			return math.Inf(-1)
		}
	case Special:
		f, _ := specials(d)
		return f[i%len(f)]
	case SpecialRow:
		f, _ := specials(d)
		return f[i/len(f)%len(f)]
	case Dominant:
		x := u - 0.5
		if r, c := i/g.columns%g.rows, i%g.columns; r == c {
			x += 2 + 2*float64(r) + float64(max(g.rows, g.columns))/2
		}
		return x
	case Extremes:
		f, _ := specials(d)
		if x := f[i%len(f)]; !math.IsInf(x, 0) {
			return x
		}
		return 0.25
	}
	return 6*u - 3
}

// integer returns element i of an operand of an integer type or of bools.
func (v Domain) integer(d dtype.DType, g *numbers, i, limit int) int64 {
	w := g.word(i)
	pick := func(n int64) int64 { return int64(random.Bounded(w, uint64(n))) }
	if d == dtype.Bool {
		return pick(2)
	}
	signed := d != dtype.Uint8
	switch v {
	case Index:
		return pick(int64(limit))
	case Special, Extremes:
		_, l := specials(d)
		return l[i%len(l)]
	case SpecialRow:
		_, l := specials(d)
		return l[i/len(l)%len(l)]
	case Wide:
		return wrap(d, int64(w))
	case Distinct:
		return wrap(d, int64(g.shuffled(i)))
	case Few, Halves:
		if signed {
			return pick(5) - 2
		}
		return pick(3)
	case Positive, AboveOne, Fraction, Gentle:
		return 1 + pick(9)
	case NonZero:
		if x := 1 + pick(9); signed && w&1 == 1 {
			return -x
		} else {
			return x
		}
	}
	if signed {
		return pick(19) - 9
	}
	return pick(10)
}

// wrap keeps the low bits that d holds.
func wrap(d dtype.DType, x int64) int64 {
	switch d {
	case dtype.Uint8:
		return int64(uint8(x))
	case dtype.Int32:
		return int64(int32(x))
	}
	return x
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
