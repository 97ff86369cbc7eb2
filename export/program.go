package export

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/elem"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/weights"
)

// Program is a program from a file, with its weights on a device. Any number of
// goroutines may use it; their calls happen one after the other.
type Program struct {
	portable *program.Portable
	device   locus.Device
	weights  []*locus.Tensor
	compiled *locus.Compiled
}

// Signature is what a program takes and returns.
type Signature struct {
	Args, Results []weights.Spec
}

// String returns "(float32 (4, 6)) → (float32 (4, 3))".
func (s Signature) String() string {
	list := func(l []weights.Spec) string {
		texts := make([]string, len(l))
		for i, x := range l {
			texts[i] = x.String()
		}
		return "(" + strings.Join(texts, ", ") + ")"
	}
	return list(s.Args) + " → " + list(s.Results)
}

// Load reads a program that [Save] or [SaveNet] has written, and puts its weights on the
// default device: see [Program.On]. A damaged or malicious file is an error; so is one
// of a later version of the format, or with an op that this version does not have.
func Load(path string) (*Program, error) {
	f, err := weights.Open(path)
	if err != nil {
		return nil, failed("export.Load", err)
	}
	defer f.Close()
	return load(f, path)
}

// Read is [Load] for content that is not in a file.
func Read(r io.ReaderAt, size int64) (*Program, error) {
	f, err := weights.Read(r, size)
	if err != nil {
		return nil, failed("export.Read", err)
	}
	defer f.Close()
	return load(f, "the program")
}

func load(f *weights.File, path string) (*Program, error) {
	q, err := parse(f)
	if err != nil {
		return nil, within(path, err)
	}
	p := &Program{portable: q, device: locus.DefaultDevice()}
	for _, w := range q.Weights {
		info, ok := f.Info(w.Name)
		if !ok {
			return nil, within(path, malformed("the weight %.40q is missing", w.Name))
		}
		if info.DType != w.DType || !slices.Equal(info.Shape, w.Shape) {
			return nil, within(path, malformed("the weight %.40q is %s, but the program needs %s %s", w.Name, info.Spec, w.DType, op.ShapeString(w.Shape)))
		}
		t, err := f.Load(w.Name, p.device)
		if err != nil {
			return nil, failed("export.Load", err)
		}
		p.weights = append(p.weights, t)
	}
	return p, failed("export.Load", locus.Try(p.compile))
}

// parse returns the program in a file.
func parse(f *weights.File) (*program.Portable, error) {
	text, ok := f.Metadata()[MetadataKey]
	if !ok {
		return nil, &locus.Error{Kind: weights.ErrFormat, Op: "export.Load", Msg: "there is no program in it", Fix: "write one with export.Save; weights alone are loaded with nn.Load or weights.Open"}
	}
	p, err := program.ParsePortable([]byte(text))
	var version *program.VersionError
	var problem *op.Problem
	switch {
	case err == nil:
	case errors.As(err, &version):
		return nil, &locus.Error{Kind: weights.ErrFormat, Op: "export.Load", Msg: err.Error(), Fix: "use the version of Locus that wrote it, or a later one"}
	case errors.As(err, &problem) && problem.Fix != "":
		return nil, &locus.Error{Kind: weights.ErrFormat, Op: "export.Load", Msg: err.Error(), Fix: problem.Fix}
	default:
		return nil, malformed("%v", err)
	}
	seen := map[string]bool{}
	for _, w := range p.Weights {
		if seen[w.Name] {
			return nil, malformed("the weight %.40q comes twice", w.Name)
		}
		seen[w.Name] = true
	}
	return p, nil
}

// Inspect returns the signature of the program in a file, and whether there is one,
// without reading its weights.
func Inspect(f *weights.File) (s Signature, ok bool, err error) {
	if err := gate.Given("the file", f); err != nil {
		return s, false, failed("export.Inspect", err)
	}
	err = locus.Try(func() { _, ok = f.Metadata()[MetadataKey] })
	if !ok {
		return s, false, err
	}
	p, err := parse(f)
	if err != nil {
		return s, true, err
	}
	return signature(p), true, nil
}

func (p *Program) compile() {
	list := make([]any, len(p.weights))
	for i, w := range p.weights {
		list[i] = w
	}
	p.compiled = locus.Compile(lend.Import(p.portable, list, p.device).(func(...*locus.Tensor) []*locus.Tensor))
}

func (p *Program) made(name string) {
	gate.Receiver(name, p != nil && p.compiled != nil, "load one with export.Load")
}

// On returns the program with copies of its weights on device d, or p itself if they are
// there.
func (p *Program) On(d locus.Device) *Program {
	p.made("export.Program.On")
	if d == p.device {
		return p
	}
	q := &Program{portable: p.portable, device: d}
	for _, w := range p.weights {
		q.weights = append(q.weights, w.To(d))
	}
	q.compile()
	return q
}

// Device returns where the weights are, and where arguments must be.
func (p *Program) Device() locus.Device {
	p.made("export.Program.Device")
	return p.device
}

// Call computes the program. The arguments must have the shapes and element types of
// [Program.Signature] and be on the program's device. Results have no history. They are
// what the saved function would return, to the bit on the same kind of device.
func (p *Program) Call(args ...*locus.Tensor) []*locus.Tensor {
	const name = "export.Program.Call"
	p.made(name)
	want := p.portable.Args
	if len(args) != len(want) {
		fail(name, locus.ErrArgument, fmt.Sprintf("%d arguments; the program takes %d: %s", len(args), len(want), signature(p.portable)), "")
	}
	in := make([]*locus.Tensor, len(args))
	for i, a := range args {
		gate.Check(name, gate.Given(fmt.Sprintf("argument %d", i), a))
		switch {
		case a.DType() != want[i].DType:
			fail(name, locus.ErrDType, fmt.Sprintf("argument %d is %s; the program takes %s", i, a.DType(), want[i].DType), "convert it: .Cast(locus."+elem.GoName(want[i].DType)+")")
		case !slices.Equal(a.Shape(), want[i].Shape):
			fail(name, locus.ErrShape, fmt.Sprintf("argument %d has shape %s; the program takes %s", i, op.ShapeString(a.Shape()), op.ShapeString(want[i].Shape)),
				"a program is for one size of batch: pad the batch, or save a program for each size")
		case a.Device() != p.device:
			fail(name, locus.ErrDevice, fmt.Sprintf("argument %d is on %s, the program on %s", i, a.Device(), p.device), "move one of them: p.On(x.Device()), or x.To(p.Device())")
		}
		in[i] = a.Detach().Contiguous()
	}
	return p.compiled.Call(in...)
}

// Signature returns what the program takes and returns.
func (p *Program) Signature() Signature {
	p.made("export.Program.Signature")
	return signature(p.portable)
}

func signature(p *program.Portable) (s Signature) {
	for _, a := range p.Args {
		s.Args = append(s.Args, weights.Spec{DType: a.DType, Shape: slices.Clone(a.Shape)})
	}
	for i := range p.Results {
		v := &p.Results[i].View
		s.Results = append(s.Results, weights.Spec{DType: v.DType, Shape: slices.Clone(v.Shape)})
	}
	return s
}

// String lists the program: its arguments, its weights, and a line per step.
func (p *Program) String() string {
	p.made("export.Program.String")
	return p.portable.String()
}

// Temporary returns the bytes of everything that a call computes, results and what is on
// the way to them. A call needs at most that much memory besides the weights, and
// usually much less: a service that loads untrusted programs can refuse those that need
// more than it has.
func (p *Program) Temporary() float64 {
	p.made("export.Program.Temporary")
	return p.portable.Temporary()
}

// Explain says how the program is run on its device: see [locus.Compiled.Explain].
func (p *Program) Explain() string {
	p.made("export.Program.Explain")
	return p.compiled.Explain()
}
