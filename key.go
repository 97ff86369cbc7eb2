package locus

import (
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
	"github.com/locusml/locus/internal/trace"
)

// Key is the source of random numbers: a plain value. The same key draws the same numbers on
// every device, whatever the number of threads. Using a key twice draws the same numbers
// twice, so split it where several are needed.
type Key struct {
	bits        uint64
	first, size int // of the part of a batch that is drawn; 0 examples: all of it
}

// NewKey makes a key from a seed.
func NewKey(seed uint64) Key { return Key{bits: random.Split(seed, 0)} }

// Part returns k for a part of a batch: size examples, of which the first is number first
// of the batch. A tensor that is drawn with it, and whose first axis has size rows or a
// multiple of them, has the numbers that these examples have in the tensor that k draws for
// the whole batch. So a batch that several devices share gets the dropout masks that it
// gets on one:
//
//	whole := locus.CPU().Key(k).Rand(8, 3)
//	rows := locus.CPU().Key(k.Part(6, 2)).Rand(2, 3) // whole's last two
//
// If the first axis has n·size rows, every example has n of them, one after the other, such
// as the steps of sequences that were flattened. Where the batch is not the first axis, the
// numbers of parts differ from each other, and from those of the whole. A tensor whose first
// axis is not a multiple of size, such as one number for all, is the same in all parts.
//
// Keys that are split or folded from it are for the same part. A size of 0 is the whole
// batch.
func (k Key) Part(first, size int) Key {
	gate.Check("Key.Part", gate.Count("the number of examples before the part", first, 0, maxPart), gate.Count("the number of examples", size, 0, maxPart))
	if k.first, k.size = first, size; size == 0 {
		k.first = 0
	}
	return k
}

// maxPart is the most examples of a batch.
const maxPart = 1 << 40

// First returns the number that the first example of the part has in the batch: 0 unless the
// key was made by [Key.Part].
func (k Key) First() int { return k.first }

// from returns the number of the first element of a tensor that is drawn.
func (k Key) from(shape op.Dims) uint64 {
	if k.first == 0 || shape.N == 0 || shape.D[0]%k.size != 0 {
		return 0
	}
	each := uint64(shape.D[0] / k.size) // elements of an example
	for _, n := range shape.Slice()[1:] {
		each *= uint64(n)
	}
	return uint64(k.first) * each & (1<<62 - 1) // no batch has as many; counters above are those of Fold
}

// Split returns n keys that are independent of each other and of k. Where very many
// are needed, [Key.Fold] makes them one at a time.
func (k Key) Split(n int) []Key {
	gate.Check("Key.Split", gate.Count("the number of keys", n, 0, gate.MaxKeys))
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = k.Fold(uint64(i))
	}
	return keys
}

// Fold returns the n-th key derived from k: the same as the n-th of Split.
func (k Key) Fold(n uint64) Key {
	f := Key{random.Split(k.bits, n), k.first, k.size}
	if trace.Current() != nil {
		trace.Derive(k.bits, f.bits, func(bits uint64) uint64 { return random.Split(bits, n) })
	}
	return f
}

// Bits returns the key as a number, to be stored; [KeyFromBits] reads it back. Keys of other
// parts of a batch (see [Key.Part]) have other bits: as the seed of another generator they
// do not produce the same numbers for two parts. The bits do not say which part it is.
func (k Key) Bits() uint64 {
	if k.first > 0 {
		return random.Split(k.bits, uint64(k.first)|1<<61)
	}
	return k.bits
}

// KeyFromBits returns the key that [Key.Bits] was taken from.
func KeyFromBits(bits uint64) Key { return Key{bits: bits} }

// global is where random tensors without a key get theirs from.
var global struct {
	seed atomic.Uint64
	used atomic.Uint64
}

// Seed restarts the sequence of keys that random tensors made without a key
// draw from. Programs that never call it get the sequence of seed 0: a run
// can be repeated unless it asks for other numbers.
func Seed(seed uint64) {
	if t := trace.Current(); t != nil {
		t.Refuse("locus.Seed is called inside the function: call it before")
	}
	global.seed.Store(seed)
	global.used.Store(0)
}

// NextKey returns the next key of the sequence that random tensors made without a key draw
// from: see [Seed].
func NextKey() Key {
	k := nextKey()
	if trace.Current() != nil {
		trace.Draw(k.bits, func() uint64 { return nextKey().bits }, func() { global.used.Add(^uint64(0)) })
	}
	return k
}

func nextKey() Key {
	n := global.used.Add(1)
	return NewKey(global.seed.Load()).Fold(n)
}

func (m Maker) nextKey() Key {
	if m.keyed {
		return m.key
	}
	return NextKey()
}

func (m Maker) random(name string, id op.ID, def DType, shape []int, low, span int64) *Tensor {
	a := op.Random{DType: m.or(def), Shape: checkShape(name, shape), Low: low, Span: span}
	p := m.device.open(name)
	if l := slicesDrawn(); l != nil && !m.keyed {
		return m.draw(l, func(key Key) *Tensor { return create(p, id, a.WithKey(key.bits)) })
	}
	key := m.nextKey()
	a.Key, a.First = key.bits, key.from(a.Shape)
	return create(p, id, a)
}

// Rand makes numbers drawn uniformly from [0, 1).
func (m Maker) Rand(shape ...int) *Tensor {
	return m.random("Rand", op.RandUniform, Float32, shape, 0, 0)
}

// Randn makes numbers drawn from the standard normal distribution.
func (m Maker) Randn(shape ...int) *Tensor {
	return m.random("Randn", op.RandNormal, Float32, shape, 0, 0)
}

// Randint makes integers drawn uniformly from low to below high, of type
// int64 unless chosen with As.
func (m Maker) Randint(low, high int64, shape ...int) *Tensor {
	if high <= low || high-low <= 0 {
		failf("Randint", ErrArgument, nil, "there is no integer from %d to below %d", low, high)
	}
	dt := m.or(Int64)
	if dt == Uint8 && (low < 0 || high > 256) || dt == Int32 && (low < -1<<31 || high > 1<<31) {
		failf("Randint", ErrArgument, nil, "%s does not hold all numbers from %d to below %d", dt, low, high)
	}
	return m.random("Randint", op.RandInt, dt, shape, low, high-low)
}

// Permutation makes the numbers from 0 to below n in random order.
func (m Maker) Permutation(n int) *Tensor {
	bits := m.As(Int64).random("Permutation", op.RandBits, Int64, []int{n}, 0, 0)
	return bits.ArgSort(0, false).Cast(m.or(Int64))
}

// Rand makes numbers on d drawn uniformly from [0, 1).
func (d Device) Rand(shape ...int) *Tensor { return d.maker().Rand(shape...) }

// Randn makes numbers on d drawn from the standard normal distribution.
func (d Device) Randn(shape ...int) *Tensor { return d.maker().Randn(shape...) }

// Randint makes integers on d drawn uniformly from low to below high.
func (d Device) Randint(low, high int64, shape ...int) *Tensor {
	return d.maker().Randint(low, high, shape...)
}

// Permutation makes the numbers from 0 to below n on d in random order.
func (d Device) Permutation(n int) *Tensor { return d.maker().Permutation(n) }

// Rand makes numbers on the default device drawn uniformly from [0, 1).
func Rand(shape ...int) *Tensor { return DefaultDevice().Rand(shape...) }

// Randn makes numbers on the default device drawn from the standard normal
// distribution.
func Randn(shape ...int) *Tensor { return DefaultDevice().Randn(shape...) }

// Randint makes integers on the default device drawn uniformly from low to
// below high.
func Randint(low, high int64, shape ...int) *Tensor {
	return DefaultDevice().Randint(low, high, shape...)
}

// Permutation makes the numbers from 0 to below n on the default device in
// random order.
func Permutation(n int) *Tensor { return DefaultDevice().Permutation(n) }
