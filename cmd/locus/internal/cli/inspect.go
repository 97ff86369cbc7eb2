package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/inspect"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/internal/printable"
	"github.com/locusml/locus/internal/units"
)

func (a *app) inspect() *cobra.Command {
	var asJSON, stats bool
	var unpacked string
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show what files of weights and checkpoints hold",
		Long: `Lists the tensors of a safetensors, npz or npy file, or of the newest checkpoint
in a folder: names, element types, shapes, sizes, and the metadata saved with
them; for a program that package export has saved, what it takes and returns.
Nothing in a file is run, and only the header is read unless --stats asks for
the values.`,
		Example: `  locus inspect runs/digits-mlp/weights.safetensors
  locus inspect --stats runs/digits-mlp/checkpoints`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			most, err := parseUnpacked(unpacked)
			if err != nil {
				return err
			}
			files := []*inspect.File{}
			for _, path := range args {
				f, err := inspect.Look(path, stats, most)
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			if asJSON {
				return a.json(files)
			}
			for i, f := range files {
				if i > 0 {
					a.out.Println()
				}
				a.showFile(f, stats)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&stats, "stats", false, "read the values and summarize them")
	unpackedFlag(c, &unpacked)
	jsonFlag(c, &asJSON)
	return c
}

// unpackedFlag lets the user raise the limit for compressed files.
func unpackedFlag(c *cobra.Command, v *string) {
	c.Flags().StringVar(v, "max-unpacked", "", "let a compressed npz file unpack to at most `SIZE`, such as 8GiB (256MiB, or 100 times the file)")
}

func parseUnpacked(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := locus.ParseBytes(s)
	if err != nil || n <= 0 {
		return 0, usagef("--max-unpacked %s: not a size such as 8GiB", s)
	}
	return n, nil
}

func (a *app) showFile(f *inspect.File, stats bool) {
	o := a.out
	o.Heading(printable.Text(f.Path))
	o.Printf("%s, %s, %s elements, %s\n", f.Format, text.Many(len(f.Tensors), "tensor"), text.Count(f.Elements), units.Bytes(f.Bytes))
	if f.Saved != nil {
		o.Printf("number %d, saved %s\n", f.Number, f.Saved.Local().Format("2006-01-02 15:04:05"))
	}
	if len(f.Others) > 0 {
		o.Printf("other checkpoints here: %s\n", strings.Trim(fmt.Sprint(f.Others), "[]"))
	}
	for _, b := range f.Broken {
		o.Text(o.Mark(text.Yellow) + " not whole: " + printable.Text(b))
	}
	o.Println()
	t := &text.Table{Head: []string{"name", "type", "shape", "elements", "size"}, Right: map[int]bool{3: true, 4: true}, Shrink: -1} // names are what the table is for: they stay whole
	if stats {
		t.Head = []string{"name", "type", "shape", "min", "max", "mean", "std"}
		t.Right = map[int]bool{3: true, 4: true, 5: true, 6: true, 7: true}
		if slices.ContainsFunc(f.Tensors, func(x inspect.Tensor) bool { return x.Stats != nil && x.Stats.NotFinite > 0 }) {
			t.Head = append(t.Head, "not finite")
		}
	}
	for _, x := range f.Tensors {
		name := printable.Text(x.Name)
		if name == "" {
			name = "(no name)"
		}
		row := []string{name, printable.Text(x.Type), shape(x.Shape)}
		switch {
		case !stats:
			row = append(row, text.Count(x.Elements), units.Bytes(x.Bytes))
		case x.Stats == nil:
			row = append(row, "-", "-", "-", "-", "-")[:len(t.Head)]
		default:
			for _, v := range []float64{x.Stats.Min, x.Stats.Max, x.Stats.Mean, x.Stats.Std} {
				row = append(row, fmt.Sprintf("%.3g", v))
			}
			row = append(row, text.Count(x.Stats.NotFinite))[:len(t.Head)]
		}
		t.Add(row...)
	}
	o.Table(t, 0)
	a.showMetadata(f)
}

// showMetadata prints what was saved with the tensors: the card of a network
// field by field, the rest as it is.
func (a *app) showMetadata(f *inspect.File) {
	o := a.out
	line := func(k, v string) { // both are the file's
		o.Printf("%s %s\n", text.Pad(o.Style(text.Dim, text.Cut(printable.Text(k), 60)), 16), text.Cut(printable.Text(v), max(20, o.Width-17)))
	}
	if card, ok := model.CardOf(f.Metadata); ok {
		o.Println()
		line("model", card.Model)
		learned := fmt.Sprintf("%d classes", len(card.Classes))
		if card.Scaler != nil {
			learned = "a number"
		}
		line("data", fmt.Sprintf("%s, inputs of shape %s, %s", card.Data, shape(card.Input), learned))
		line("made by", card.Made)
		for _, part := range []struct {
			title string
			of    map[string]any
		}{{"hyperparameters", card.Hyper}, {"result", card.Result}} {
			if len(part.of) > 0 {
				o.Println(o.Style(text.Dim, part.title))
			}
			for _, k := range slices.Sorted(maps.Keys(part.of)) {
				line("  "+k, fmt.Sprint(part.of[k]))
			}
		}
		f.Metadata = model.OtherMetadata(f.Metadata)
	}
	if f.Program != "" { // its text is long, and for machines
		o.Println()
		line("program", f.Program)
		delete(f.Metadata, export.MetadataKey)
	}
	if len(f.Metadata) > 0 {
		o.Println()
		for _, k := range slices.Sorted(maps.Keys(f.Metadata)) {
			line(k, f.Metadata[k])
		}
	}
	var state map[string]json.RawMessage
	if json.Unmarshal(f.State, &state) == nil && len(state) > 0 {
		o.Println()
		for _, k := range slices.Sorted(maps.Keys(state)) {
			var compact bytes.Buffer
			if json.Compact(&compact, state[k]) == nil {
				line(k, compact.String())
			}
		}
	}
}

func shape(s []int) string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = fmt.Sprint(d)
	}
	if len(s) == 1 {
		return "(" + parts[0] + ",)"
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (a *app) convert() *cobra.Command {
	var asJSON, force bool
	var as, unpacked string
	types := map[string]locus.DType{"": 0, "float64": locus.Float64, "float32": locus.Float32, "float16": locus.Float16, "bfloat16": locus.BFloat16, "bf16": locus.BFloat16}
	c := &cobra.Command{
		Use:   "convert FROM TO",
		Short: "Convert between safetensors, npz and npy",
		Long: `Writes the tensors of a file in another format, which the ending of TO names:
.safetensors, .npz or .npy. The element types stay unless --dtype asks for
another floating-point type. NumPy's formats hold no metadata: the command lists
what is lost.`,
		Example: `  locus convert model.safetensors model.npz
  locus convert --dtype bf16 model.npz model.safetensors`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			dtype, ok := types[as]
			if !ok {
				return usagef("--dtype %s: want float64, float32, float16 or bfloat16", as)
			}
			most, err := parseUnpacked(unpacked)
			if err != nil {
				return err
			}
			r, err := inspect.Convert(args[0], args[1], dtype, force, most)
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(r)
			}
			a.out.Printf("%s: %s, %s\n", printable.Text(r.To), text.Many(r.Tensors, "tensor"), units.Bytes(r.Bytes))
			if len(r.Dropped) > 0 {
				a.err.Println(a.err.Style(text.Dim, "note: the format holds no metadata; left out: "+printable.Text(strings.Join(r.Dropped, ", "))))
			}
			return nil
		},
	}
	c.Flags().StringVar(&as, "dtype", "", "convert floating-point elements: float64, float32, float16, bfloat16")
	c.Flags().BoolVar(&force, "force", false, "replace TO if it exists")
	unpackedFlag(c, &unpacked)
	jsonFlag(c, &asJSON)
	complete(c, "dtype", completeWords("float64", "float32", "float16", "bfloat16"))
	return c
}
