package data_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

func TestScaler(t *testing.T) {
	g := locus.AddVirtualGPUs(1, 64<<20)[0]
	for name, shape := range map[string][]int{"targets": {700, 1}, "a vector": {700}, "columns": {513, 3}, "images": {300, 3, 4, 5}} {
		x := locus.CPU().Key(locus.NewKey(4)).Randn(shape...).Mul(3).Add(1e4) // far from zero: sums of squares would cancel
		d, err := data.NewTensorDataset(locus.Zeros(shape[0]), x)
		if err != nil {
			t.Fatal(err)
		}
		s, err := data.NewScaler(d, 1)
		if err != nil {
			t.Fatal(err)
		}
		y := s.Scale(x.Cast(locus.Float64))
		columns := y
		if y.Rank() == 1 {
			columns = y.Unsqueeze(1)
		}
		columns = columns.MoveAxis(1, 0).Reshape(columns.Dim(1), -1)
		for i, m := range locus.ToSlice[float64](columns.Mean(1)) {
			square := locus.ToSlice[float64](columns.Square().Mean(1))[i]
			if math.Abs(m) > 1e-9 || math.Abs(square-1) > 1e-9 {
				t.Errorf("%s: column %d has mean %v and variance %v", name, i, m, square)
			}
		}
		if e := s.Unscale(y).Sub(x.Cast(locus.Float64)).Abs().Max().Item(); e > 1e-9 {
			t.Errorf("%s: back and forth is off by %v", name, e)
		}
		if onGPU := s.Scale(x.To(g)); onGPU.Device() != g || onGPU.DType() != locus.Float32 {
			t.Errorf("%s: %v", name, onGPU)
		}
		// Saved and read, it is the same.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again data.Scaler
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if e := again.Scale(x).Sub(s.Scale(x)).Abs().Max().Item(); e != 0 {
			t.Errorf("%s: off by %v after saving", name, e)
		}
		// As a transform.
		batch, err := data.Map(d, s.Transform(1)).Batch([]int{5, 2}, locus.NewKey(0))
		if err != nil {
			t.Fatal(err)
		}
		if e := batch[1].Sub(s.Scale(x.Take(0, locus.From([]int{5, 2})))).Abs().Max().Item(); e != 0 || batch[0].Sum().Item() != 0 {
			t.Errorf("%s: off by %v as a transform", name, e)
		}
	}
}

func TestScalerRefuses(t *testing.T) {
	set := func(x *locus.Tensor) data.Dataset {
		d, err := data.NewTensorDataset(x)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if s, err := data.NewScaler(set(locus.Full(3, 5, 2)), 0); err != nil || s.Std()[1] != 1 || s.Scale(locus.Full(3, 1, 2)).Sum().Item() != 0 {
		t.Error("equal numbers:", s, err)
	}
	if s, err := data.NewScaler(set(locus.As(locus.Uint8).Full(7, 5, 2)), 0); err != nil || s.Mean()[0] != 7 {
		t.Error("bytes:", err)
	}
	for name, err := range map[string]error{
		"no dataset":  second(data.NewScaler(nil, 0)),
		"no examples": second(data.NewScaler(set(locus.Zeros(0, 2)), 0)),
		"no field":    second(data.NewScaler(set(locus.Zeros(3, 2)), 1)),
		"NaN":         second(data.NewScaler(set(locus.Full(math.NaN(), 3, 2)), 0)),
		"JSON":        json.Unmarshal([]byte(`{"mean":[1],"std":[0]}`), new(data.Scaler)),
		"no JSON":     json.Unmarshal([]byte(`7`), new(data.Scaler)),
		"zero value":  second(json.Marshal(new(data.Scaler))),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := data.NewScaler(set(locus.Rand(9, 2)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){"columns": func() { s.Scale(locus.Ones(3, 3)) }, "a vector": func() { s.Scale(locus.Ones(2)) }, "integers": func() { s.Scale(locus.From([][]int{{1, 2}})) },
		"nil": func() { s.Scale(nil) }, "a zero scaler": func() { new(data.Scaler).Scale(locus.Ones(1)) }} {
		var e *locus.Error
		if err := locus.Try(f); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
