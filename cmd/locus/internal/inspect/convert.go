package inspect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// Converted says what Convert did.
type Converted struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"` // of the new file
	// Dropped names the entries of the metadata that the new format cannot hold.
	Dropped []string `json:"metadata_dropped,omitempty"`
}

// Convert writes the tensors of a file in the format that the name of the other
// asks for. as converts floating-point elements; 0 leaves them. A file that is
// there is replaced only with force. For unpacked see [Look].
func Convert(from, to string, as locus.DType, force bool, unpacked int64) (*Converted, error) {
	format, err := formatOf(to)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(to); err == nil && !force {
		return nil, fmt.Errorf("%s exists; --force replaces it", to)
	}
	f, err := open(from, unpacked)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tensors, err := f.LoadAll(locus.CPU())
	if err != nil {
		return nil, err
	}
	if as != 0 {
		err := locus.Try(func() {
			for name, t := range tensors {
				if t.DType().IsFloat() {
					tensors[name] = t.Cast(as)
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	c := &Converted{From: from, To: to, Tensors: len(tensors)}
	if err := save(to, format, tensors, f, c); err != nil {
		return nil, err
	}
	info, err := os.Stat(to)
	if err != nil {
		return nil, err
	}
	c.Bytes = info.Size()
	return c, nil
}

func save(to string, format weights.Format, tensors map[string]*locus.Tensor, f *weights.File, c *Converted) error {
	if t, ok := tensors[""]; ok && format != weights.NPY { // of an npy file; a name is needed elsewhere
		delete(tensors, "")
		name := strings.TrimSuffix(filepath.Base(f.Path()), filepath.Ext(f.Path()))
		tensors[name] = t
	}
	meta := f.Metadata()
	switch format {
	case weights.Safetensors:
		return weights.Save(to, tensors, meta)
	case weights.NPY:
		if len(tensors) != 1 {
			return fmt.Errorf("an npy file holds one tensor and %s has %d; write an npz file", f.Path(), len(tensors))
		}
	}
	c.Dropped = slices.Sorted(maps.Keys(meta))
	if format == weights.NPZ {
		return weights.SaveNPZ(to, tensors)
	}
	for _, t := range tensors {
		return weights.SaveNPY(to, t)
	}
	return nil
}

func formatOf(path string) (weights.Format, error) {
	switch f := weights.Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")); f {
	case weights.Safetensors, weights.NPZ, weights.NPY:
		return f, nil
	}
	return "", fmt.Errorf("%s: the name must end in .safetensors, .npz or .npy", path)
}
