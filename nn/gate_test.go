package nn_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// TestSillyLayers has what used to hang, to end the process, to be a foreign
// panic or to be accepted.
func TestSillyLayers(t *testing.T) {
	const huge = 1 << 40
	x := locus.Ones(2, 3)
	for what, c := range map[string]struct {
		kind error
		f    func()
	}{
		"TransformerEncoder":        {locus.ErrArgument, func() { nn.TransformerEncoder(huge, 2, 1, nn.TransformerOptions{}) }},
		"TransformerDecoder":        {locus.ErrArgument, func() { nn.TransformerDecoder(huge, 2, 1, nn.TransformerOptions{}) }},
		"negative layers":           {locus.ErrArgument, func() { nn.TransformerEncoder(-1, 2, 1, nn.TransformerOptions{}) }},
		"RNN":                       {locus.ErrArgument, func() { nn.RNN(1, 1, nn.RecurrentOptions{Layers: huge}) }},
		"LazyLSTM":                  {locus.ErrArgument, func() { nn.LazyLSTM(1, nn.RecurrentOptions{Layers: huge}) }},
		"GRU of a huge state":       {locus.ErrShape, func() { nn.LazyGRU(1<<61, nn.RecurrentOptions{}) }},
		"Linear":                    {locus.ErrShape, func() { nn.Linear(1<<31, 1<<31) }},
		"LazyLinear":                {locus.ErrShape, func() { nn.LazyLinear(-1) }},
		"LazyConv2D":                {locus.ErrShape, func() { nn.LazyConv2D(-1, 3, locus.ConvOptions{}) }},
		"Conv2D of negative groups": {locus.ErrArgument, func() { nn.Conv2D(1, 1, 3, locus.ConvOptions{Groups: -1}) }},
		"MultiHeadAttention":        {locus.ErrShape, func() { nn.MultiHeadAttention(1<<62, 1, nn.MultiHeadOptions{}) }},
		"Embedding":                 {locus.ErrShape, func() { nn.Embedding(-1, 2) }},
		"an option that is nil":     {locus.ErrArgument, func() { nn.Linear(2, 2, nil) }},
		"WithDType of integers":     {locus.ErrDType, func() { nn.Linear(2, 2, nn.WithDType(locus.Int64)) }},
		"WithDType of nothing":      {locus.ErrDType, func() { nn.Linear(2, 2, nn.WithDType(99)) }},
		"Sequential with nil":       {locus.ErrArgument, func() { nn.Sequential(nn.ReLU(), nil) }},
		"Sequential with typed nil": {locus.ErrArgument, func() { nn.Sequential((*nn.LinearLayer)(nil)) }},
		"Sequential filled by hand": {locus.ErrArgument, func() { (&nn.SequentialLayer{Layers: []nn.Module{nil}}).Forward(x) }},
		"a nil one, deep inside":    {locus.ErrArgument, func() { nn.Sequential(&nn.ResidualLayer{Body: (*nn.SequentialLayer)(nil)}).Forward(x) }},
		"a network in itself":       {locus.ErrArgument, func() { s := nn.Sequential(); s.Add(nn.Residual(nn.Sequential(s), nil)) }},
		"At":                        {locus.ErrIndex, func() { nn.Sequential(nn.ReLU()).At(-2) }},
		"At, too far":               {locus.ErrIndex, func() { nn.Sequential().At(0) }},
		"Residual of nil":           {locus.ErrArgument, func() { nn.Residual(nil, nil) }},
		"Func of nil":               {locus.ErrArgument, func() { nn.Func(nil) }},
		"Summarize of nil":          {locus.ErrArgument, func() { nn.Summarize(nil, x) }},
		"LoadFrom nil":              {locus.ErrArgument, func() { panic(nn.LoadFrom(nil, nn.Linear(2, 2))) }},
		"PaddingMask of floats":     {locus.ErrDType, func() { nn.PaddingMask(x, 3) }},
		"Rotary of base NaN":        {locus.ErrArgument, func() { nn.Rotary(2, -1) }},
		"a nil layer":               {locus.ErrArgument, func() { (*nn.LinearLayer)(nil).Forward(x) }},
		"a zero convolution":        {locus.ErrArgument, func() { new(nn.ConvLayer).Forward(x) }},
		"a zero volume convolution": {locus.ErrArgument, func() { new(nn.Conv3DLayer).Forward(x) }},
		"a flat volume":             {locus.ErrShape, func() { nn.LazyConv3D(2, 3, locus.Conv3DOptions{}).Forward(locus.Zeros(1, 2, 3, 3)) }},
		"uneven groups":             {locus.ErrArgument, func() { nn.LazyConvTranspose3D(3, 3, locus.ConvTranspose3DOptions{Groups: 2}) }},
		"a zero recurrent layer":    {locus.ErrArgument, func() { new(nn.RecurrentLayer).Forward(x) }},
		"a huge, empty sequence":    {locus.ErrArgument, func() { nn.LazyGRU(2, nn.RecurrentOptions{}).Forward(locus.Zeros(0, huge, 3)) }},
		"a zero attention":          {locus.ErrArgument, func() { new(nn.MultiHeadAttentionLayer).Forward(x) }},
		"a zero encoder layer":      {locus.ErrArgument, func() { new(nn.EncoderLayer).Forward(x) }},
		"a nil input":               {locus.ErrArgument, func() { nn.Linear(2, 2).Forward(nil) }},
		"a zero input":              {locus.ErrArgument, func() { nn.LazyLinear(2).Forward(new(locus.Tensor)) }},
	} {
		if err := locus.Try(c.f); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", what, err, c.kind)
		}
	}
	if s := new(nn.RecurrentLayer).String(); s != "Recurrent" {
		t.Error(s)
	}
}
