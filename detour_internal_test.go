package locus

import (
	"errors"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/virtual"
)

// detouring is a GPU that says of linear algebra that it computes it in main memory.
type detouring struct{ *virtual.Device }

func (detouring) Detours(c *backend.Call) bool { return op.Get(c.Op).Family == op.LinalgFamily }

func (detouring) RecordCalls([]*backend.Call, []bool) (backend.Recording, error) {
	return nil, errors.New("a call is computed in main memory")
}

// An op that is computed in main memory is in the ledger and asks the guard, also in a
// compiled function.
func TestDetoursAreTransfers(t *testing.T) {
	d := addGPUs([]backend.Device{detouring{virtual.New(900, 1<<20)}})[0]
	x := Eye(3).Mul(2).CopyTo(d)
	compiled := Compile(func(args ...*Tensor) []*Tensor { return []*Tensor{args[0].Add(1).Cholesky().Exp()} })
	compiled.Call(x) // it is traced, and the first call copies nothing else
	for name, f := range map[string]func(){
		"at once":  func() { x.Cholesky() },
		"compiled": func() { compiled.Call(x) },
	} {
		ResetLedger()
		f()
		if l := Ledger(); l.Count(DeviceToHost) != 1 || l.Bytes(DeviceToHost) != 2*9*4 {
			t.Errorf("%s: the ledger has\n%v", name, l)
		}
		restore := Guard(Disallow, DeviceToHost)
		if err := Try(f); !errors.Is(err, ErrTransfer) {
			t.Errorf("%s: %v, want ErrTransfer", name, err)
		}
		restore()
	}
	before := x.place.pool.Stats().InUse
	x.Free()
	if after := x.place.pool.Stats().InUse; after >= before {
		t.Errorf("a refused op holds on to its operand: %d bytes, then %d", before, after)
	}
}
