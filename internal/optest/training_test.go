package optest

import (
	"math"
	"testing"

	"github.com/locusml/locus"
)

// training is what testdata/training.py records.
type training struct {
	Torch string
	Runs  map[string]struct {
		Data, Params []arrayHeader
		Losses       []float64
		Rate         float64
	}
	Memory struct {
		Batch int
		Sizes []int
		Peak  int64
	}
	blob []byte
}

func loadTraining(t *testing.T) *training {
	r := &training{}
	var err error
	if r.blob, err = readFile("../../testdata/training.bin.gz", r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *training) tensors(t *testing.T, d locus.Device, headers []arrayHeader) []*locus.Tensor {
	var l []*locus.Tensor
	for _, h := range headers {
		a, err := h.array(r.blob)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, a.Tensor(d))
	}
	return l
}

// networks are those of testdata/training.py: losses of data and parameters.
var networks = map[string]func(data, p []*locus.Tensor) *locus.Tensor{
	"mlp": func(data, p []*locus.Tensor) *locus.Tensor {
		h := locus.Linear(data[0], p[0], p[1]).Tanh()
		h = locus.Linear(h, p[2], p[3]).Relu()
		return locus.CrossEntropy(locus.Linear(h, p[4], p[5]), data[1], locus.CrossEntropyOptions{})
	},
	"cnn": func(data, p []*locus.Tensor) *locus.Tensor {
		h := locus.Conv2D(data[0], p[0], p[1], locus.ConvOptions{Padding: 1})
		h, _, _ = locus.BatchNorm(h, p[2], p[3], 1e-5)
		h = locus.MaxPool2D(h.Relu(), 2, locus.PoolOptions{})
		h = locus.Conv2D(h, p[4], p[5], locus.ConvOptions{Stride: 2, Padding: 1, Groups: 2}).Relu()
		h = locus.AvgPool2D(h, 2, locus.PoolOptions{Stride: 1})
		return locus.CrossEntropy(locus.Linear(h.FlattenFrom(1), p[6], p[7]), data[1], locus.CrossEntropyOptions{})
	},
	"transformer": func(data, p []*locus.Tensor) *locus.Tensor {
		const heads = 2
		tokens := data[0]
		batch, length, width := tokens.Dim(0), tokens.Dim(1)-1, p[0].Dim(1)
		norm := func(x *locus.Tensor, i int) *locus.Tensor {
			return locus.LayerNorm(x, []int{width}, p[i], p[i+1], 1e-5)
		}
		x := locus.Embedding(p[0], tokens.Narrow(1, 0, length)).Add(p[1])
		qkv := locus.Linear(norm(x, 2), p[4], p[5]).Reshape(batch, length, 3, heads, width/heads).Permute(2, 0, 3, 1, 4)
		a := locus.Attention(qkv.Index(0), qkv.Index(1), qkv.Index(2), locus.AttentionOptions{Causal: true})
		x = x.Add(locus.Linear(a.Transpose(1, 2).Reshape(batch, length, width), p[6], p[7]))
		x = x.Add(locus.Linear(locus.Linear(norm(x, 8), p[10], p[11]).Gelu(), p[12], p[13]))
		logits := locus.Linear(norm(x, 14), p[16], p[17])
		return locus.CrossEntropy(logits.Reshape(-1, logits.Dim(-1)), tokens.Narrow(1, 1, length+1).Flatten(), locus.CrossEntropyOptions{})
	},
}

// TestTraining trains three small networks for 20 steps from the weights and the
// data that PyTorch did, in a scope a step, and compares the losses.
func TestTraining(t *testing.T) {
	r := loadTraining(t)
	if len(r.Runs) != len(networks) {
		t.Errorf("%d networks are recorded, %d written", len(r.Runs), len(networks))
	}
	onDevices(t, func(t *testing.T, d locus.Device) {
		for name, run := range r.Runs {
			data, params := r.tensors(t, d, run.Data), r.tensors(t, d, run.Params)
			worst := 0.0
			for step, want := range run.Losses {
				locus.Scoped(func(s *locus.Scope) {
					loss := sgdStep(s, networks[name], data, params, run.Rate).Item()
					off := math.Abs(loss-want) / math.Abs(want)
					if worst = max(worst, off); !(off <= 1e-4) {
						t.Errorf("%s, step %d: loss %v, want %v: off by %.2g", name, step, loss, want, off)
					}
				})
			}
			t.Logf("%-11s: loss %.4f to %.4f in %d steps, at most %.1e off", name, run.Losses[0], run.Losses[len(run.Losses)-1], len(run.Losses), worst)
		}
	})
}

// sgdStep replaces params by those one step down the gradient. All that it
// computes belongs to s, as do the parameters that were.
func sgdStep(s *locus.Scope, f func(data, p []*locus.Tensor) *locus.Tensor, data, params []*locus.Tensor, rate float64) *locus.Tensor {
	leaves := make([]*locus.Tensor, len(params))
	for i, p := range params {
		leaves[i] = s.Use(p).RequireGrad()
	}
	loss := f(data, leaves)
	for i, g := range locus.Grad([]*locus.Tensor{loss}, leaves) {
		next := s.Keep(leaves[i].Detach().Sub(g.Mul(rate)))
		s.Adopt(params[i])
		params[i] = next
	}
	return loss.Detach()
}
