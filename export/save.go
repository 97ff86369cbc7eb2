package export

import (
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/plain"
	"github.com/locusml/locus/internal/program"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// MetadataKey is the name of the metadata that holds the program in a file.
const MetadataKey = "locus.program"

// Save writes what c computes of arguments such as args to a file, with all tensors that
// it needs, and replaces path as a whole or not at all. The program is for the shapes and
// element types of args, whose elements do not matter. Nothing is run; c's function is
// called twice to see what it does, as [locus.Compile] says.
//
// Variables become weights with their present values. A function that sets variables,
// collects gradients or draws random numbers cannot be saved: export a forward pass.
func Save(path string, c *locus.Compiled, args ...*locus.Tensor) error {
	return save(path, c, nil, args)
}

// Write writes what [Save] would.
func Write(w io.Writer, c *locus.Compiled, args ...*locus.Tensor) error {
	if err := gate.Given("the writer", w); err != nil {
		return failed("export.Write", err)
	}
	tensors, metadata, err := content(c, nil, args)
	if err != nil {
		return err
	}
	return weights.Write(w, tensors, metadata)
}

// SaveNet is [Save] for the forward pass of a network in inference mode, without gradients. It leaves the network in
// that mode, as [nn.Eval] does. Weights have the names that [nn.Save] uses, so the file can also be read as a file of
// weights. The network is called once with x beforehand, so that lazy layers know their sizes.
func SaveNet(path string, net nn.Module, x *locus.Tensor) error {
	if err := gate.Given("the network", net); err != nil {
		return failed("export.SaveNet", err)
	}
	names := map[*locus.Tensor]string{}
	var c *locus.Compiled
	err := locus.Try(func() {
		nn.Eval(net)
		locus.NoGrad(func() { net.Forward(x) })
		for _, e := range nn.State(net) {
			if t := e.Value(); t != nil {
				names[t] = e.Name
			}
		}
		key := new(int)
		c = locus.Compile(func(a ...*locus.Tensor) (out []*locus.Tensor) {
			defer plain.Watch(key, net, func() []nn.Entry { return nn.State(net) })()
			locus.NoGrad(func() { out = []*locus.Tensor{net.Forward(a[0])} })
			return out
		}, plain.Fields(nn.Cells(net))...)
	})
	if err != nil {
		return failed("export.SaveNet", err)
	}
	return save(path, c, names, []*locus.Tensor{x})
}

func save(path string, c *locus.Compiled, names map[*locus.Tensor]string, args []*locus.Tensor) error {
	tensors, metadata, err := content(c, names, args)
	if err != nil {
		return err
	}
	return weights.Save(path, tensors, metadata)
}

// content returns what the file of a program holds.
func content(c *locus.Compiled, names map[*locus.Tensor]string, args []*locus.Tensor) (tensors map[string]*locus.Tensor, metadata map[string]string, err error) {
	const name = "export.Save"
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	var p *program.Portable
	err = locus.Try(func() {
		var found []lend.ExportedWeight
		p, found = lend.Export(c, list)
		tensors = call(p, found, names)
	})
	if err != nil {
		return nil, nil, failed(name, err)
	}
	p.Locus = version()
	if err := p.Check(); err != nil {
		return nil, nil, failed(name, err)
	}
	text, err := p.MarshalText()
	if err != nil {
		return nil, nil, failed(name, err)
	}
	// What cannot be loaded must not be saved.
	if _, err := program.ParsePortable(text); err != nil {
		return nil, nil, failed(name, err)
	}
	return tensors, map[string]string{MetadataKey: string(text)}, nil
}

// call returns the program's weights names, each its own.
func call(p *program.Portable, found []lend.ExportedWeight, names map[*locus.Tensor]string) map[string]*locus.Tensor {
	tensors := map[string]*locus.Tensor{}
	for i, w := range found {
		variable, _ := w.Variable.(*locus.Tensor)
		name := names[variable]
		if name == "" {
			kind := "captured."
			switch {
			case variable != nil:
				kind = "variable."
			case w.Const:
				kind = "constant."
			}
			name = kind + strconv.Itoa(i)
		}
		for base, n := name, 2; tensors[name] != nil; n++ {
			name = fmt.Sprintf("%s.%d", base, n)
		}
		p.Weights[i].Name = name
		tensors[name] = w.Tensor.(*locus.Tensor)
	}
	return tensors
}

// version returns the version of this module.
func version() string {
	const path = "github.com/locusml/locus"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "development"
}
