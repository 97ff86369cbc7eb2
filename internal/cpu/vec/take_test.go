package vec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestTake(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(37, 38))
		for _, size := range []int{1, 4, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 130, 1024, 1100} {
			src := make([]uint8, 50*size)
			for i := range src {
				src[i] = uint8(r.Uint32())
			}
			for _, n := range []int{0, 1, 3, 4, 5, 9, 40} {
				idx := make([]int64, n)
				var want []byte
				for i := range idx {
					idx[i] = r.Int64N(50)
					want = append(want, src[int(idx[i])*size:][:size]...)
				}
				dst := bytes.Repeat([]byte{42}, n*size+40)
				Take(dst[:n*size], src, idx, size)
				if !bytes.Equal(dst[:n*size], want) {
					t.Fatalf("%d rows of %d bytes differ", n, size)
				}
				if !bytes.Equal(dst[n*size:], bytes.Repeat([]byte{42}, 40)) {
					t.Fatalf("%d rows of %d bytes: wrote past the end", n, size)
				}
			}
		}
	})
}
