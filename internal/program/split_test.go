package program_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

// somewhere is a device that programs only name.
type somewhere struct {
	backend.Device
	name string
}

// Split puts each step on its device behind the copies that it needs, passes values from
// piece to piece, and says where each of them ends.
func TestSplit(t *testing.T) {
	a, b := &somewhere{name: "a"}, &somewhere{name: "b"}
	p := &program.Program{}
	value := func(kind program.Kind, on backend.Device) program.Ref {
		p.Values = append(p.Values, program.Value{Kind: kind, On: on, Spec: op.Spec{DType: dtype.Float32, Shape: []int{2}}, Bytes: 8})
		return program.Ref{Value: len(p.Values) - 1, View: backend.View{DType: dtype.Float32, Shape: []int{2}, Strides: []int{1}}}
	}
	step := func(id op.ID, on backend.Device, in ...program.Ref) program.Ref {
		out := value(program.Temp, on)
		p.Steps = append(p.Steps, program.Step{Op: id, In: in, Out: out})
		return out
	}
	x, w := value(program.Arg, a), value(program.State, b)
	h := step(op.Exp, a, x)
	early := step(op.Copy, b, x)      // a copy of an argument: no part needs to end
	both := step(op.Add, b, early, w) // so that this and the next are one part
	there := step(op.Copy, b, h)      // ends a's first part
	y := step(op.Mul, b, there, both) // joins b's short part, which has not begun
	same := step(op.Copy, b, y)       // on one device: a step as any other
	back := step(op.Copy, a, same)
	z := step(op.Add, a, back, h)  // h is needed again
	none := value(program.Temp, b) // without elements: no step makes it
	none.View.Shape, p.Values[none.Value].Spec.Shape, p.Values[none.Value].Bytes = []int{0}, []int{0}, 0
	p.Results = []program.Ref{z, y, x, none, none}

	if got := p.Devices(); len(got) != 2 || got[0] != backend.Device(a) || got[1] != backend.Device(b) {
		t.Fatal("devices:", got)
	}
	checkPieces(t, p.Split(), []wantPiece{
		{on: b, makes: []int{none.Value}},
		{move: early.Value},
		{on: a, ops: []op.ID{op.Exp}, needs: []int{x.Value}, makes: []int{h.Value}},
		{move: there.Value},
		{on: b, ops: []op.ID{op.Add, op.Mul, op.Copy}, needs: []int{w.Value, early.Value, there.Value}, makes: []int{y.Value, same.Value}, ends: []int{early.Value, there.Value}},
		{move: back.Value, ends: []int{same.Value}},
		{on: a, ops: []op.ID{op.Add}, needs: []int{h.Value, back.Value}, makes: []int{z.Value}, ends: []int{h.Value, back.Value}},
	})

	// A pipeline: b begins with the first part of the batch while a computes the second.
	p.Values, p.Steps, p.Results = nil, nil, nil
	var want []wantPiece
	var parts []wantPiece
	for range 3 {
		x := value(program.Arg, a)
		h := step(op.Exp, a, x)
		m := step(op.Copy, b, h)
		y := m
		part := wantPiece{on: b, needs: []int{m.Value}, ends: []int{m.Value}}
		for _, id := range []op.ID{op.Tanh, op.Softmax} {
			y = step(id, b, y)
			part.ops = append(part.ops, id)
		}
		part.makes = []int{y.Value}
		parts = append(parts, part)
		p.Results = append(p.Results, y)
		want = append(want, wantPiece{on: a, ops: []op.ID{op.Exp}, needs: []int{x.Value}, makes: []int{h.Value}}, wantPiece{move: m.Value, ends: []int{h.Value}})
		if n := len(parts); n > 1 {
			want = append(want, parts[n-2])
		}
	}
	checkPieces(t, p.Split(), append(want, parts[2]))
}

type wantPiece struct {
	move         int // its result; 0 for a part
	on           backend.Device
	ops          []op.ID
	needs, makes []int
	ends         []int
}

func checkPieces(t *testing.T, got []program.Piece, want []wantPiece) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d pieces, not %d", len(got), len(want))
	}
	for i, w := range want {
		x := got[i]
		if !slices.Equal(x.Ends, w.ends) {
			t.Errorf("behind piece %d end %v, not %v", i, x.Ends, w.ends)
		}
		if x.Move != nil {
			if x.Move.Out.Value != w.move {
				t.Errorf("piece %d copies to %d, not to %d", i, x.Move.Out.Value, w.move)
			}
			continue
		}
		var ops []op.ID
		for _, s := range x.Part.Steps {
			ops = append(ops, s.Op)
		}
		var makes, needs []int
		for _, r := range x.Part.Results {
			makes = append(makes, r.Value)
		}
		for v, x := range x.Part.Values {
			if x.Kind != program.Temp {
				needs = append(needs, v)
			}
		}
		if x.Device != w.on || !slices.Equal(ops, w.ops) || !slices.Equal(makes, w.makes) || !slices.Equal(needs, w.needs) {
			t.Errorf("piece %d on %s: %v makes %v of %v", i, x.Device.(*somewhere).name, ops, makes, needs)
		}
		if err := x.Part.Verify(); err != nil {
			t.Error(err)
		}
	}
}
