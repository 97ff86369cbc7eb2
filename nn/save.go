package nn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// Save writes a network's parameters and buffers to a safetensors file,
// replacing path as a whole or not at all.
func Save(path string, m any) error { return SaveWith(path, m, nil) }

// SaveWith is [Save] with texts, such as what is needed to build the network
// again; [Metadata] reads them.
func SaveWith(path string, m any, metadata map[string]string) error {
	state, err := byName("nn.Save", m)
	if err != nil {
		return err
	}
	tensors := map[string]*locus.Tensor{}
	var lazy []string
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if v := state[name].Value(); v != nil {
			tensors[name] = v.Detach()
		} else {
			lazy = append(lazy, name)
		}
	}
	if len(lazy) > 0 {
		return &locus.Error{Kind: locus.ErrArgument, Op: "nn.Save", Msg: strings.Join(lazy, ", ") + " have no value yet", Fix: "run Forward once first"}
	}
	return weights.Save(path, tensors, metadata)
}

// byName returns a network's tensors by name. Two of one name are an error: one of
// them would be lost.
func byName(op string, m any) (state map[string]Entry, err error) {
	state = map[string]Entry{}
	err = locus.Try(func() {
		for _, e := range State(m) {
			if _, twice := state[e.Name]; twice {
				fail(locus.ErrArgument, op, "two tensors of the network are called "+e.Name, "rename a field, or leave out a tag `nn:\"inline\"`")
			}
			state[e.Name] = e
		}
	})
	return state, err
}

// Metadata returns the texts that were saved with a network.
func Metadata(path string) (map[string]string, error) {
	f, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Metadata(), nil
}

// LoadOption changes what [Load] accepts.
type LoadOption func(*loading)

type loading struct {
	missing, unexpected bool
	rename              func(string) string
}

// AllowMissing leaves tensors that the file lacks as they are.
func AllowMissing() LoadOption { return func(l *loading) { l.missing = true } }

// AllowUnexpected ignores tensors that only the file has.
func AllowUnexpected() LoadOption { return func(l *loading) { l.unexpected = true } }

// Rename maps the file's names to the network's; a tensor whose new name is ""
// is left out. For a file whose names all begin with "model.":
//
//	nn.Rename(func(name string) string { return strings.TrimPrefix(name, "model.") })
func Rename(f func(name string) string) LoadOption { return func(l *loading) { l.rename = f } }

// Load sets a network's tensors from a safetensors or npz file, as written by
// [Save] or, its layers having PyTorch's names, from a state_dict there. Each
// goes to where the network has it, whatever device it was saved on; a lazy
// layer's to where the layer was moved to, else to the network's device, and its
// shape comes from the file. Floating-point numbers of another size are
// converted.
//
// A file that does not fit is a *weights.MatchError that lists every missing,
// unexpected and mis-shaped name, and then nothing is changed. PyTorch's counts
// of batches (num_batches_tracked) are skipped. A compressed npz file that
// unpacks to more than package weights allows can be opened with
// [weights.MaxUnpacked] and read with [LoadFrom].
func Load(path string, m any, opts ...LoadOption) error {
	f, err := weights.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return LoadFrom(f, m, opts...)
}

// LoadFrom is [Load] from an open file.
func LoadFrom(f *weights.File, m any, opts ...LoadOption) error {
	if f == nil {
		return &locus.Error{Kind: locus.ErrArgument, Op: "nn.LoadFrom", Msg: "the file is nil", Fix: "open it with weights.Open"}
	}
	var l loading
	for _, o := range opts {
		if o == nil {
			return &locus.Error{Kind: locus.ErrArgument, Op: "nn.Load", Msg: "an option is nil"}
		}
		o(&l)
	}
	if f == nil {
		return &locus.Error{Kind: locus.ErrArgument, Op: "nn.LoadFrom", Msg: "the file is nil", Fix: "open one with weights.Open"}
	}
	state, err := byName("nn.Load", m)
	if err != nil {
		return err
	}
	from, err := l.match(f, state)
	if err != nil {
		return err
	}
	home := home(m)
	for _, name := range slices.Sorted(maps.Keys(from)) {
		e := state[name]
		d, dt := e.destination(home)
		t, err := f.Load(from[name], d)
		if err != nil {
			return fmt.Errorf("nn: loading %s: %w", name, err)
		}
		if dt.Valid() && dt != t.DType() {
			if err := locus.Try(func() { t = t.Cast(dt) }); err != nil {
				return fmt.Errorf("nn: loading %s: %w", name, err)
			}
		}
		e.Set(t)
	}
	return nil
}

// match finds the file's name for each of the network's tensors.
func (l loading) match(f *weights.File, state map[string]Entry) (from map[string]string, err error) {
	e := &weights.MatchError{Path: f.Path()}
	from = map[string]string{}
	for _, in := range f.Names() {
		name := in
		if l.rename != nil {
			if name = l.rename(in); name == "" {
				continue
			}
		}
		entry, ok := state[name]
		if !ok {
			if !l.unexpected && name != "num_batches_tracked" && !strings.HasSuffix(name, ".num_batches_tracked") {
				e.Unexpected = append(e.Unexpected, name)
			}
			continue
		}
		if twin, ok := from[name]; ok {
			return nil, &locus.Error{Kind: locus.ErrArgument, Op: "nn.Load", Msg: fmt.Sprintf("%q and %q of the file are both renamed to %q", twin, in, name)}
		}
		from[name] = in
		info, _ := f.Info(in)
		if want, fits := entry.fits(info.Spec); !fits {
			e.Different = append(e.Different, weights.Mismatch{Name: name, Want: want, Have: info.Spec, HaveType: info.Type})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if _, ok := from[name]; !ok && !l.missing {
			e.Missing = append(e.Missing, name)
		}
	}
	if len(e.Missing)+len(e.Unexpected)+len(e.Different) == 0 {
		return from, nil
	}
	slices.Sort(e.Unexpected)
	slices.SortFunc(e.Different, func(a, b weights.Mismatch) int { return strings.Compare(a.Name, b.Name) })
	return nil, e
}

// fits tells whether a tensor of a file may take the entry's place.
func (e Entry) fits(have weights.Spec) (want weights.Spec, ok bool) {
	k := e.known()
	ok = have.DType.Valid() && (!k.dtype.Valid() || k.dtype == have.DType || k.dtype.IsFloat() && have.DType.IsFloat())
	if e.Kind == Trained {
		ok = ok && have.DType.IsFloat()
	}
	ok = ok && k.allows(have.Shape)
	return weights.Spec{DType: k.dtype, Shape: k.shape}, ok
}

// destination tells where a tensor that takes the entry's place goes, and its
// type, which is invalid where any will do.
func (e Entry) destination(home locus.Device) (locus.Device, locus.DType) {
	k := e.known()
	if d, ok := e.placed(); ok {
		return d, k.dtype
	}
	return home, k.dtype
}

// home is the device of the first tensor of a network that has one, else the
// default device.
func home(m any) locus.Device {
	for _, e := range State(m) {
		if d, ok := e.placed(); ok {
			return d
		}
	}
	return locus.DefaultDevice()
}
