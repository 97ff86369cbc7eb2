// Command gpt trains a small transformer to guess the next character of a text,
// and lets it write one. The text is a short tale unless -text names a file.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

//go:embed tale.txt
var tale string

// config is the size of the network and how long it is trained.
type config struct {
	context, features, heads, layers int
	epochs                           int
}

func main() {
	path := flag.String("text", "", "the `file` to learn from; without one, a tale")
	prompt := flag.String("prompt", "The keeper ", "what the generated text begins with")
	length := flag.Int("length", 300, "how many characters to generate")
	temperature := flag.Float64("temperature", 0.5, "how daring to be: towards 0 always the most likely character")
	device := locus.TryGPU()
	flag.TextVar(&device, "device", device, "where to train: cpu, gpu:0, …")
	var c config
	flag.IntVar(&c.context, "context", 48, "how many characters it sees")
	flag.IntVar(&c.features, "features", 64, "numbers that stand for a character")
	flag.IntVar(&c.heads, "heads", 4, "heads of attention")
	flag.IntVar(&c.layers, "layers", 2, "transformer layers")
	flag.IntVar(&c.epochs, "epochs", 6, "passes over the text")
	flag.Parse()

	text := tale
	if *path != "" {
		var err error
		if text, err = data.ReadText(*path); err != nil {
			log.Fatal(err)
		}
	}
	g, err := fit(os.Stdout, device, text, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.write(*prompt, *length, *temperature, locus.NewKey(1)))
}

// GPT is a transformer that reads only backwards: what it says of a position comes
// from the characters up to there.
type GPT struct {
	Embed     *nn.EmbeddingLayer
	Positions *nn.LearnedPositionsLayer
	Body      *nn.Encoder
	Out       *nn.LinearLayer

	vocab   *data.Vocab
	context int
}

func newGPT(vocab *data.Vocab, c config) *GPT {
	return &GPT{
		Embed:     nn.Embedding(vocab.Len(), c.features, nn.WithInit(nn.Normal(0, 0.02))),
		Positions: nn.LearnedPositions(c.context, c.features),
		Body: nn.TransformerEncoder(c.layers, c.features, c.heads, nn.TransformerOptions{
			Hidden: 4 * c.features, Activation: locus.GeluActivation,
			Causal: true, PreNorm: true, FinalNorm: true,
		}),
		Out:     nn.Linear(c.features, vocab.Len(), nn.NoBias()),
		vocab:   vocab,
		context: c.context,
	}
}

// Forward returns, for characters (N, L), scores (N, L, vocab) of what comes next.
func (g *GPT) Forward(x *locus.Tensor) *locus.Tensor {
	return g.Out.Forward(g.Body.Forward(g.Positions.Forward(g.Embed.Forward(x))))
}

// Loss makes a GPT a model that a trainer can train.
func (g *GPT) Loss(scores, next *locus.Tensor) *locus.Tensor {
	return locus.CrossEntropy(scores.Transpose(1, 2), next, locus.CrossEntropyOptions{}) // classes on axis 1
}

// ConfigureOptimizer chooses the optimizer.
func (g *GPT) ConfigureOptimizer(params []nn.Entry) *optim.Optimizer {
	return optim.AdamW(params, 3e-3, optim.AdamOptions{})
}

func fit(w io.Writer, device locus.Device, text string, c config) (*GPT, error) {
	chars := data.Chars(text)
	vocab := data.NewVocab(chars, 1)
	set, err := data.NewSequences(vocab.Encode(chars), c.context)
	if err != nil {
		return nil, err
	}

	const batchSize = 32
	g := newGPT(vocab, c)
	steps := int64(c.epochs * (set.Len() / batchSize))
	report, err := train.New(
		train.MaxEpochs(c.epochs), train.Devices(device), train.ClipGradients(1),
		train.Schedule(optim.Warmup(steps/10, optim.Cosine(steps-steps/10, 0.1))),
	).Fit(g, train.Data{Train: set, BatchSize: batchSize, DropLast: true})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(w, report)
	return g, nil
}

// write goes on from a prompt, character by character. The characters stay on the
// device until the last of them is known.
func (g *GPT) write(prompt string, n int, temperature float64, key locus.Key) string {
	device := g.Out.Weight.Device()
	text := device.From(g.vocab.Encode(data.Chars(prompt))).Unsqueeze(0)
	locus.NoGrad(func() {
		for i := range n {
			seen := text.Slice(locus.All(), locus.Tail(max(0, text.Dim(1)-g.context)))
			scores := g.Forward(seen).Slice(locus.All(), locus.At(-1))
			next := draw(scores.Div(temperature), key.Fold(uint64(i)))
			text = locus.Concat(1, text, next.Unsqueeze(1))
		}
	})
	return strings.Join(g.vocab.Decode(locus.ToSlice[int64](text)), "")
}

// draw chooses a class for each row of scores with the probabilities of their
// softmax. The largest of scores plus Gumbel noise has just that distribution, so
// that no probability has to leave the device.
func draw(scores *locus.Tensor, key locus.Key) *locus.Tensor {
	u := scores.Device().Key(key).Rand(scores.Shape()...)
	return scores.Sub(u.Add(1e-20).Log().Neg().Add(1e-20).Log()).ArgMax(-1)
}
