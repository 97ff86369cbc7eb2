package data

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Scaler shifts and scales numbers to mean 0 and standard deviation 1: each column
// of a matrix, each channel of images, each along axis 1. It is for what a table's
// [Encoder] does not see: targets of a regression, whose predictions [Scaler.Unscale]
// turns back, images, signals. It is saved with a model as JSON.
type Scaler struct {
	mean, std []float64
}

// scalerBatch is how many examples a Scaler looks at together.
const scalerBatch = 256

// NewScaler learns from all examples of a dataset, the training data: field 0 is the
// inputs. Fields are of shape (n), (n, columns) or (n, channels, …).
func NewScaler(d Dataset, field int) (*Scaler, error) {
	n, err := length(d)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("data: a scaler learns from at least one example: %w", locus.ErrArgument)
	}
	var all moment
	for from := 0; from < n; from += scalerBatch {
		at := make([]int, min(scalerBatch, n-from))
		for i := range at {
			at[i] = from + i
		}
		fields, err := d.Batch(at, locus.NewKey(0))
		if err != nil {
			return nil, err
		}
		if err := gate.Count("the field", field, 0, len(fields)-1); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		var m moment
		err = locus.Try(func() { m = momentOf(fields[field]) })
		for _, t := range fields {
			t.Free()
		}
		if err != nil {
			return nil, err
		}
		if all, err = all.with(m); err != nil {
			return nil, err
		}
	}
	s := &Scaler{mean: all.mean, std: make([]float64, len(all.mean))}
	for i, square := range all.square {
		s.std[i] = math.Sqrt(square / all.n)
		if math.IsNaN(s.std[i]) || math.IsInf(s.std[i], 0) {
			return nil, fmt.Errorf("data: column %d of field %d holds a number that is not finite: %w", i, field, ErrFormat)
		}
		if s.std[i] == 0 {
			s.std[i] = 1 // all equal: they become 0
		}
	}
	return s, nil
}

// moment is the count, the means and the sums of squared differences from them.
type moment struct {
	n            float64
	mean, square []float64
}

func momentOf(t *locus.Tensor) (m moment) {
	locus.Scoped(func(s *locus.Scope) {
		x := s.Use(t.Detach()).Cast(locus.Float64)
		switch x.Rank() {
		case 0:
			panic(&locus.Error{Kind: locus.ErrShape, Op: "data.NewScaler", Msg: "the field has no axis of examples"})
		case 1:
			x = x.Unsqueeze(1)
		}
		x = x.MoveAxis(1, 0).Reshape(x.Dim(1), -1)
		mean := x.Mean(1)
		m = moment{float64(x.Dim(1)), locus.ToSlice[float64](mean), locus.ToSlice[float64](x.Sub(mean.Unsqueeze(1)).Square().Sum(1))}
	})
	return m
}

// with joins two moments without the cancellation of sums of squares.
func (m moment) with(o moment) (moment, error) {
	if m.n == 0 {
		return o, nil
	}
	if len(m.mean) != len(o.mean) {
		return m, fmt.Errorf("data: %d columns in one batch, %d in another: %w", len(m.mean), len(o.mean), locus.ErrShape)
	}
	n := m.n + o.n
	for i := range m.mean {
		d := o.mean[i] - m.mean[i]
		m.mean[i] += d * o.n / n
		m.square[i] += o.square[i] + d*d*m.n*o.n/n
	}
	m.n = n
	return m, nil
}

func (s *Scaler) ready(op string) {
	gate.Receiver("data.Scaler."+op, s != nil && len(s.mean) > 0, "make it with data.NewScaler")
}

// Mean returns the means, one per column.
func (s *Scaler) Mean() []float64 {
	s.ready("Mean")
	return slices.Clone(s.mean)
}

// Std returns the standard deviations, one per column; 1 where all numbers are equal.
func (s *Scaler) Std() []float64 {
	s.ready("Std")
	return slices.Clone(s.std)
}

// Scale returns (x - mean) / deviation, on x's device and of its type.
func (s *Scaler) Scale(x *locus.Tensor) *locus.Tensor {
	mean, std := s.along("Scale", x)
	return x.Sub(mean).Div(std)
}

// Unscale returns y · deviation + mean: it undoes [Scaler.Scale].
func (s *Scaler) Unscale(y *locus.Tensor) *locus.Tensor {
	mean, std := s.along("Unscale", y)
	return y.Mul(std).Add(mean)
}

// along returns means and deviations as tensors that go with x.
func (s *Scaler) along(op string, x *locus.Tensor) (mean, std *locus.Tensor) {
	s.ready(op)
	op = "data.Scaler." + op
	gate.Check(op, gate.Given("the tensor", x))
	shape, columns := []int{len(s.mean)}, 1
	if x.Rank() > 1 {
		columns = x.Dim(1)
		for range x.Rank() - 2 {
			shape = append(shape, 1)
		}
	}
	if columns != len(s.mean) || !x.DType().IsFloat() || x.Rank() == 0 {
		panic(&locus.Error{Kind: locus.ErrShape, Op: op, Msg: fmt.Sprintf("%s %v; want floats with %d columns or channels along axis 1", x.DType(), x.Shape(), len(s.mean))})
	}
	tensor := func(v []float64) *locus.Tensor {
		t := x.Device().From(v, shape...).Cast(x.DType())
		if scope := x.Scope(); scope != nil {
			scope.Adopt(t)
		}
		return t
	}
	return tensor(s.mean), tensor(s.std)
}

// Transform scales a field of every batch: see [Map].
func (s *Scaler) Transform(field int) Transform {
	s.ready("Transform")
	gate.Check("data.Scaler.Transform", gate.Count("the field", field, 0, math.MaxInt32))
	return func(batch []*locus.Tensor, _ locus.Key) []*locus.Tensor {
		gate.Check("data.Scaler.Transform", gate.Count("the field", field, 0, len(batch)-1))
		out := slices.Clone(batch)
		out[field] = s.Scale(batch[field])
		return out
	}
}

type savedScaler struct {
	Mean []float64 `json:"mean"`
	Std  []float64 `json:"std"`
}

// MarshalJSON returns what the scaler has learned, to be kept with the model.
func (s *Scaler) MarshalJSON() ([]byte, error) {
	if s == nil || len(s.mean) == 0 {
		return nil, fmt.Errorf("data: a scaler that is nil or a zero value has learned nothing; make it with data.NewScaler: %w", locus.ErrArgument)
	}
	return json.Marshal(savedScaler{s.mean, s.std})
}

// UnmarshalJSON reads what MarshalJSON wrote. Values that no scaler can have learned
// are an error, and then s is not changed.
func (s *Scaler) UnmarshalJSON(b []byte) error {
	if s == nil {
		return fmt.Errorf("data: the scaler to read into is nil: %w", locus.ErrArgument)
	}
	var read savedScaler
	if err := json.Unmarshal(b, &read); err != nil {
		return fmt.Errorf("data: not a scaler: %w", err)
	}
	ok := len(read.Mean) > 0 && len(read.Mean) == len(read.Std)
	for _, v := range read.Std {
		ok = ok && v > 0
	}
	if !ok {
		return fmt.Errorf("data: not a scaler: %d means, and deviations %v: %w", len(read.Mean), read.Std, locus.ErrArgument)
	}
	*s = Scaler{read.Mean, read.Std}
	return nil
}
