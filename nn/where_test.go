package nn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// twoPaths is a network of a user's own, which no container knows the fields of.
type twoPaths struct{ Left, Right *nn.SequentialLayer }

func (n *twoPaths) Forward(x *locus.Tensor) *locus.Tensor {
	return n.Left.Forward(x).Add(n.Right.Forward(x))
}

// The error of a layer says where in the network the layer is.
func TestErrorsNameTheLayer(t *testing.T) {
	image := locus.Ones(1, 3, 8, 8)
	for want, c := range map[string]struct {
		kind error
		f    func()
	}{
		"Sequential[2] (Linear 256→10)": {locus.ErrShape, func() {
			nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(256, 10)).Forward(locus.Ones(2, 4))
		}},
		"Sequential[0] (Linear 4→8)": {locus.ErrDevice, func() { // with the activation in one op
			nn.Sequential(nn.Linear(4, 8), nn.ReLU()).Forward(gpus[0].Ones(2, 4))
		}},
		"Sequential[0] (Linear ?→8)": {locus.ErrShape, func() { nn.Sequential(nn.LazyLinear(8)).Forward(locus.Ones()) }},
		"Sequential[1][0] (Conv2D 4→6, 3×5)": {locus.ErrShape, func() {
			nn.Sequential(nn.Tanh(), nn.Sequential(nn.Conv2D(4, 6, locus.HW(3, 5), locus.ConvOptions{Groups: 2}))).Forward(image)
		}},
		"Sequential[0].Body[1] (BatchNorm 7)": {locus.ErrShape, func() {
			nn.Sequential(nn.Residual(nn.Sequential(nn.ReLU(), nn.BatchNorm(7)), nil)).Forward(image)
		}},
		"Sequential[1] (Residual)": {locus.ErrShape, func() {
			nn.Sequential(nn.ReLU(), nn.Residual(nn.Linear(4, 3), nil)).Forward(locus.Ones(2, 4))
		}},
		"Linear 64→1": {locus.ErrShape, func() {
			(&twoPaths{nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())}).Forward(nn.Linear(64, 1).Forward(locus.Ones(2, 32)))
		}},
		"Sequential[0] (LSTM 3→4)": {locus.ErrShape, func() {
			nn.Sequential(nn.LSTM(3, 4, nn.RecurrentOptions{})).Forward(locus.Ones(2, 5, 7))
		}},
		"LayerNorm": {locus.ErrShape, func() { nn.LayerNorm(4).Forward(locus.Ones(2, 3)) }},
		"Residual":  {locus.ErrShape, func() { nn.Residual(nn.Linear(4, 3), nil).Forward(locus.Ones(2, 4)) }},
		"Sequential[0].Shortcut (Conv1D 2→3, 1)": {locus.ErrShape, func() {
			nn.Sequential(nn.Residual(nn.Flatten(), nn.Conv1D(2, 3, 1, locus.ConvOptions{}))).Forward(locus.Ones(1, 5, 4))
		}},
		"ResNetBlock.Conv1 (Conv2D 4→4, 3×3)":         {locus.ErrShape, func() { nn.ResNetBlock(4, 4, 1).Forward(image) }},
		"Sequential[0] (Embedding 5×2)":               {locus.ErrIndex, func() { nn.Sequential(nn.Embedding(5, 2)).Forward(locus.From([]int{9})) }},
		"Encoder.Layers[0] (TransformerEncoderLayer)": {locus.ErrShape, func() { nn.TransformerEncoder(1, 4, 2, nn.TransformerOptions{Hidden: 4}).Forward(locus.Ones(1, 2, 6)) }},
		"Sequential[0] (twoPaths) > Sequential[1] (Linear 3→1)": {locus.ErrShape, func() {
			nn.Sequential(&twoPaths{nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU(), nn.Linear(3, 1))}).Forward(locus.Ones(1, 2))
		}},
		"Sequential[0] (Func)": {locus.ErrAxis, func() {
			nn.Sequential(nn.Func(func(x *locus.Tensor) *locus.Tensor { return x.Sum(5) })).Forward(locus.Ones(1, 2))
		}},
	} {
		err := locus.Try(c.f)
		var e *locus.Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) || e.Layer != want {
			t.Errorf("want %s, got %v", want, err)
			continue
		}
		if !strings.Contains(err.Error(), "\n  layer: "+want) {
			t.Errorf("the text does not name the layer: %v", err)
		}
	}
}

// Other panics pass a network as they are, and an error that somebody else holds is
// not changed.
func TestOtherPanicsPass(t *testing.T) {
	held := &locus.Error{Kind: locus.ErrArgument, Msg: "held"}
	late := &locus.Error{Kind: locus.ErrIndex, Msg: "of an op queued earlier", Async: true}
	for _, v := range []any{held, late, errors.New("other"), 7} {
		got := func() (r any) {
			defer func() { r = recover() }()
			nn.Sequential(nn.Func(func(*locus.Tensor) *locus.Tensor { panic(v) })).Forward(locus.Ones(1))
			return nil
		}()
		if v == any(held) {
			if e, ok := got.(*locus.Error); !ok || e == held || held.Layer != "" || e.Layer != "Sequential[0] (Func)" {
				t.Errorf("%v, held %v", got, held)
			}
		} else if got != v {
			t.Errorf("%v became %v", v, got)
		}
	}
}

// A nil layer in a container is an error that names it, not a nil dereference.
func TestNilLayerIsNamed(t *testing.T) {
	var none *nn.LinearLayer
	err := locus.Try(func() { nn.Residual(none, nil).Forward(locus.Ones(2, 3)) })
	if err == nil || strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("%v", err)
	}
}
