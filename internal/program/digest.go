package program

import (
	"encoding/binary"
	"hash/maphash"
)

var digestSeed = maphash.MakeSeed()

// Digest returns a number that two traces of one function share if [Diff] finds nothing
// between them. Unlike the programs themselves it can be kept: constants may be
// forgotten, and passes may change the program.
func Digest(p *Program) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	number := func(n int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	ref := func(r *Ref) {
		v := &r.View
		number(r.Value)
		number(int(v.Bits))
		number(v.Offset)
		number(int(v.DType))
		for _, l := range [][]int{v.Shape, v.Strides} {
			number(len(l))
			for _, n := range l {
				number(n)
			}
		}
		if r.Value < 0 {
			return
		}
		x := &p.Values[r.Value]
		number(int(x.Kind))
		maphash.WriteComparable(&h, x.On)
		switch x.Kind {
		case Captured:
			maphash.WriteComparable(&h, x.Block)
		case Const:
			h.Write(x.Data)
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		number(int(s.Op))
		if s.Late == nil {
			maphash.WriteComparable(&h, s.Attrs)
		}
		number(len(s.In))
		for k := range s.In {
			ref(&s.In[k])
		}
		s.Outs(ref)
	}
	for i := range p.Results {
		ref(&p.Results[i])
	}
	return h.Sum64()
}
