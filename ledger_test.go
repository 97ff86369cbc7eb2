package locus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestLedgerCountsEveryTransfer(t *testing.T) {
	g0, g1 := virtualGPUs[0], virtualGPUs[1]
	locus.ResetLedger()
	x := g0.From([]float32{1, 2, 3, 4}) // 16 bytes in
	y := x.To(g1)                       // 16 across
	y.Sum().Item()                      // 4 out
	locus.Ones(4).To(g0)                // 16 in
	y.To(locus.CPU())                   // 16 out
	if err := g0.Synchronize(); err != nil {
		t.Fatal(err)
	}
	x.To(g0)                          // nothing
	locus.Ones(3).Sum().Item()        // the CPU needs no transfer
	locus.Ones(3).CopyTo(locus.CPU()) // nor this
	if err := locus.CPU().Synchronize(); err != nil {
		t.Fatal(err)
	}
	l := locus.Ledger()
	for kind, want := range map[locus.TransferKind][2]int64{
		locus.HostToDevice: {2, 32}, locus.DeviceToDevice: {1, 16}, locus.DeviceToHost: {2, 20}, locus.Wait: {1, 0},
	} {
		if l.Count(kind) != want[0] || l.Bytes(kind) != want[1] {
			t.Errorf("%s: %d transfers of %d bytes, want %v", kind, l.Count(kind), l.Bytes(kind), want)
		}
	}
	if l.Count() != 6 || l.Bytes() != 68 {
		t.Error("totals", l.Count(), l.Bytes())
	}
	s := l.String()
	if !strings.Contains(s, "ledger_test.go:") || !strings.Contains(s, "device to device") {
		t.Error(s)
	}
	for _, e := range l {
		if e.Kind == locus.DeviceToDevice && (e.From != g0 || e.To != g1) {
			t.Errorf("%+v", e)
		}
	}
	locus.ResetLedger()
	if l := locus.Ledger(); len(l) != 0 || l.String() != "no transfers\n" {
		t.Error(l)
	}
}

func TestGuard(t *testing.T) {
	x := virtualGPUs[0].Ones(2)
	restore := locus.Guard(locus.Disallow, locus.DeviceToHost)
	err := locus.Try(func() { x.Item() })
	if err == nil {
		err = locus.Try(func() { x.Sum().Item() })
	}
	if !errors.Is(locus.Try(func() { x.Sum().Item() }), locus.ErrTransfer) {
		t.Error(err)
	}
	if s := x.String(); !strings.Contains(s, "disallowed") { // printing copies too, and must not crash
		t.Error(s)
	}
	if err := locus.Try(func() { locus.Ones(2).To(virtualGPUs[0]) }); err != nil {
		t.Error("other kinds are not allowed any more:", err)
	}
	restore()
	if got := x.Sum().Item(); got != 2 {
		t.Error(got)
	}
	restore = locus.Guard(locus.Disallow)
	for name, f := range map[string]func(){
		"in": func() { virtualGPUs[0].From(1.5) }, "across": func() { x.To(virtualGPUs[1]) }, "out": func() { x.To(locus.CPU()) },
	} {
		if err := locus.Try(f); !errors.Is(err, locus.ErrTransfer) || !strings.Contains(err.Error(), "ledger_test.go") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := virtualGPUs[0].Synchronize(); !errors.Is(err, locus.ErrTransfer) {
		t.Error(err)
	}
	if got := x.Add(1).Mul(x).Device(); got != virtualGPUs[0] { // computing is no transfer
		t.Error(got)
	}
	restore()
}
