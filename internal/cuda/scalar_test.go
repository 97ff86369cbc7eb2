//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// BenchmarkReadScalar times reading one number that is there, and one that the card has just
// computed.
func BenchmarkReadScalar(b *testing.B) {
	x := newBench(b)
	d := x.d
	one := x.random(dtype.Float32, 2, 3)
	sum := x.empty(dtype.Float32)
	add := &backend.Call{Op: op.Sum, Attrs: op.Reduce{Axes: op.AxesOf(0) | op.AxesOf(1)}, In: []backend.View{one}, Out: sum}
	x.ok(d.Run(add))
	var buf [4]byte
	for _, fresh := range []bool{false, true} {
		b.Run(fmt.Sprint("behind a kernel=", fresh), func(b *testing.B) {
			for range b.N {
				if fresh {
					x.ok(d.Run(add))
				}
				x.ok(d.CopyOut(buf[:], sum.Block, 0))
			}
		})
	}
}

// Numbers are copied out whole, whichever they are, that which stands for none among them.
func TestNumbersOut(t *testing.T) {
	_, devices := openFake(t, 1)
	test := func(t *testing.T, d *Device) {
		x := &rig{t, d, memory.NewPool(d)}
		v := x.view(dtype.Int64, []int{4})
		for _, n := range []uint64{0, 1, unset, unset << 32, unset<<32 | unset, unset<<32 | 7, 1<<64 - 1} {
			var in, out [32]byte
			for i := range 4 {
				binary.LittleEndian.PutUint64(in[i*8:], n+uint64(i))
			}
			x.ok(d.CopyIn(v.Block, in[:], func() {}))
			for at := 0; at < 32; at += 4 {
				for _, size := range []int{4, 8} {
					if at+size > 32 {
						continue
					}
					x.ok(d.CopyOut(out[at:at+size], v.Block, at))
					if string(out[at:at+size]) != string(in[at:at+size]) {
						t.Errorf("%x: %d bytes at %d are %x", n, size, at, out[at:at+size])
					}
				}
			}
		}
	}
	t.Run("without a card", func(t *testing.T) { test(t, devices[0]) })
	t.Run("on a card", func(t *testing.T) { test(t, newDevice(gpu(t).card, 0, "test")) })
}
