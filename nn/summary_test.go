package nn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

type tagger struct {
	Embed   *nn.EmbeddingLayer
	LSTM    *nn.RecurrentLayer
	Encoder *nn.Encoder
	Head    nn.Module
	Scale   *locus.Tensor `nn:"param"`
}

func newTagger() *tagger {
	return &tagger{nn.Embedding(11, 6, nn.PaddingIndex(0)), nn.LazyLSTM(3, nn.RecurrentOptions{Layers: 2, Bidirectional: true}),
		nn.TransformerEncoder(2, 6, 2, nn.TransformerOptions{Hidden: 9}), nn.Sequential(nn.LazyLinear(4), nn.ReLU()), locus.Ones(4).RequireGrad()}
}

func (t *tagger) Forward(x *locus.Tensor) *locus.Tensor {
	return t.Head.Forward(t.Encoder.Forward(t.LSTM.Forward(t.Embed.Forward(x)))).Mul(t.Scale)
}

func TestSummaryOfAStruct(t *testing.T) {
	net := newTagger()
	s := nn.Summarize(net, locus.CPU().Randint(0, 11, 2, 5))
	var got []string
	sum := 0
	for _, r := range s.Rows {
		got = append(got, fmt.Sprint(r.Name, " ", r.Layer, " ", r.Parameters, " ", r.Output))
		sum += r.Parameters
	}
	encoder := func(i string) []string {
		return []string{"encoder.layers." + i + ".self_attn MultiHeadAttention 168 []", "encoder.layers." + i + ".linear1 Linear 63 []",
			"encoder.layers." + i + ".linear2 Linear 60 []", "encoder.layers." + i + ".norm1 LayerNorm 12 []",
			"encoder.layers." + i + ".norm2 LayerNorm 12 []", "encoder.layers." + i + ".dropout Dropout 0 []"}
	}
	want := slices.Concat([]string{" tagger 4 [2 5 4]", "embed Embedding 66 []", "lstm LSTM 528 []"},
		encoder("0"), encoder("1"), []string{"head.0 Linear 28 [2 5 4]", "head.1 ReLU 0 [2 5 4]"})
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if sum != s.Parameters {
		t.Errorf("the rows have %d parameters, the network %d", sum, s.Parameters)
	}
	if out := s.String(); !strings.Contains(out, "lstm") || !strings.Contains(out, " - ") {
		t.Error(out)
	}
	if nn.State(net.LSTM)[0].Value() != nil {
		t.Error("a summary made lazy parameters")
	}
}
