// Package inspect looks into files of weights and folders of checkpoints.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
	"github.com/locusml/locus/weights/checkpoint"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // as Locus calls it, else as the file does
	Shape    []int  `json:"shape"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
	Stats    *Stats `json:"stats,omitempty"`
}

// Stats sum up a tensor's values, those that are finite.
type Stats struct {
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Mean      float64 `json:"mean"`
	Std       float64 `json:"std"`
	NotFinite int     `json:"not_finite"`
}

// File is what is in a file, or in a checkpoint.
type File struct {
	Path     string            `json:"path"`
	Format   string            `json:"format"`
	Tensors  []Tensor          `json:"tensors"`
	Elements int64             `json:"elements"`
	Bytes    int64             `json:"bytes"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Program  string            `json:"program,omitempty"` // the signature, or what is wrong with it

	// Of a checkpoint:
	Number int             `json:"number,omitempty"`
	Saved  *time.Time      `json:"saved,omitempty"`
	State  json.RawMessage `json:"state,omitempty"`
	// Others are the numbers of the other checkpoints in the folder.
	Others []int    `json:"others,omitempty"`
	Broken []string `json:"broken,omitempty"`
}

// Look looks into what is at path: a file, a folder of checkpoints (the newest of
// which it shows), or one checkpoint. A compressed file may unpack to at most so
// many bytes; 0 leaves that to package weights.
func Look(path string, stats bool, unpacked int64) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return folder(path, stats)
	}
	w, err := open(path, unpacked)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	f := &File{Path: path, Format: string(w.Format()), Metadata: w.Metadata()}
	switch s, ok, err := export.Inspect(w); {
	case ok && err != nil:
		f.Program = err.Error()
	case ok:
		f.Program = s.String()
	}
	return f, f.list(w, stats)
}

// open opens a file of weights.
func open(path string, unpacked int64) (*weights.File, error) {
	f, err := weights.Open(path, weights.MaxUnpacked(unpacked))
	if errors.Is(err, weights.ErrUnpacked) {
		return nil, fmt.Errorf("%w; here that is --max-unpacked", err)
	}
	return f, err
}

func folder(path string, stats bool) (*File, error) {
	// One checkpoint is a folder inside the folder that Open wants.
	path = filepath.Clean(path)
	one := ""
	if _, err := os.Stat(filepath.Join(path, "manifest.json")); err == nil || strings.HasPrefix(filepath.Base(path), "checkpoint-") {
		one, path = filepath.Base(path), filepath.Dir(path)
	}
	dir, err := checkpoint.Open(path, 0)
	if err != nil {
		return nil, err
	}
	whole, broken, err := dir.List()
	if err != nil {
		return nil, err
	}
	if len(whole) == 0 && len(broken) == 0 {
		return nil, fmt.Errorf("%s: a folder without checkpoints; name a file of weights or a folder of checkpoints", path)
	}
	var c *checkpoint.Checkpoint
	if one == "" {
		c, err = dir.Latest()
	} else {
		c, err = find(dir, one, whole, broken)
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f := &File{Path: c.Path, Format: "checkpoint", Number: c.Number, Saved: &c.Saved, Metadata: c.Tensors.Metadata()}
	for _, e := range whole {
		if e.Number != c.Number {
			f.Others = append(f.Others, e.Number)
		}
	}
	for _, b := range broken {
		f.Broken = append(f.Broken, fmt.Sprintf("%s: %v", b.Path, b.Err))
	}
	if err := c.State(&f.State); err != nil {
		return nil, err
	}
	return f, f.list(c.Tensors, stats)
}

// find opens the checkpoint of the given name.
func find(dir *checkpoint.Dir, name string, whole []checkpoint.Entry, broken []checkpoint.Broken) (*checkpoint.Checkpoint, error) {
	for _, e := range whole {
		if filepath.Base(e.Path) == name {
			return dir.Load(e.Number)
		}
	}
	for _, b := range broken {
		if filepath.Base(b.Path) == name {
			return nil, fmt.Errorf("%s: not a whole checkpoint: %w", b.Path, b.Err)
		}
	}
	return nil, fmt.Errorf("%s: not a checkpoint", filepath.Join(dir.Path(), name))
}

// list describes the tensors.
func (f *File) list(w *weights.File, stats bool) error {
	f.Tensors = []Tensor{}
	names := slices.Clone(w.Names())
	slices.SortStableFunc(names, nn.Natural) // layer 3 before layer 11
	for _, name := range names {
		i, _ := w.Info(name)
		t := Tensor{Name: name, Type: i.Type, Shape: i.Shape, Elements: 1, Bytes: i.Bytes}
		if t.Shape == nil {
			t.Shape = []int{}
		}
		if i.DType.Valid() {
			t.Type = i.DType.String()
		}
		for _, d := range i.Shape {
			t.Elements *= int64(d)
		}
		if stats && i.DType.Valid() {
			x, err := w.Load(name, locus.CPU())
			if err != nil {
				return err
			}
			if t.Stats, err = measure(x); err != nil {
				return err
			}
			x.Free()
		}
		f.Tensors = append(f.Tensors, t)
		f.Elements += t.Elements
		f.Bytes += t.Bytes
	}
	return nil
}

func measure(x *locus.Tensor) (*Stats, error) {
	var values []float64
	if err := locus.Try(func() { values = locus.ToSlice[float64](x.Cast(locus.Float64)) }); err != nil {
		return nil, err
	}
	s := &Stats{Min: math.Inf(1), Max: math.Inf(-1)}
	var n, m2 float64
	for _, v := range values { // Welford's way: no second pass, no cancellation
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s.NotFinite++
			continue
		}
		n++
		d := v - s.Mean
		s.Mean += d / n
		m2 += d * (v - s.Mean)
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	if n == 0 {
		return &Stats{NotFinite: s.NotFinite}, nil
	}
	s.Std = math.Sqrt(m2 / n)
	return s, nil
}
