// Command rnn trains a recurrent network to guess the next character of a text,
// and lets it write one. The text is a small rhyme unless -text names a file.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

//go:embed rhyme.txt
var rhyme string

func main() {
	path := flag.String("text", "", "the `file` to learn from; without one, a rhyme")
	prompt := flag.String("prompt", "the river ", "what the generated text begins with")
	epochs := flag.Int("epochs", 15, "passes over the text")
	device := locus.TryGPU()
	flag.TextVar(&device, "device", device, "where to train: cpu, gpu:0, …")
	flag.Parse()

	text := rhyme
	if *path != "" {
		var err error
		if text, err = data.ReadText(*path); err != nil {
			log.Fatal(err)
		}
	}
	if err := run(os.Stdout, device, text, *prompt, *epochs); err != nil {
		log.Fatal(err)
	}
}

// LanguageModel guesses the next character from all those before it, of which it
// remembers what its state has room for.
type LanguageModel struct {
	Embed *nn.EmbeddingLayer
	RNN   *nn.RecurrentLayer
	Out   *nn.LinearLayer
}

func newLanguageModel(vocab, features, hidden int) *LanguageModel {
	return &LanguageModel{
		Embed: nn.Embedding(vocab, features),
		RNN:   nn.GRU(features, hidden, nn.RecurrentOptions{}),
		Out:   nn.Linear(hidden, vocab),
	}
}

// Forward returns, for characters (N, L), scores (N, L, vocab) of what comes next.
func (m *LanguageModel) Forward(x *locus.Tensor) *locus.Tensor {
	return m.Out.Forward(m.RNN.Forward(m.Embed.Forward(x)))
}

func run(w io.Writer, device locus.Device, text, prompt string, epochs int) error {
	chars := data.Chars(data.SimplifyText(text))
	vocab := data.NewVocab(chars, 1)
	set, err := data.NewSequences(vocab.Encode(chars), 32)
	if err != nil {
		return err
	}

	net := newLanguageModel(vocab.Len(), 16, 96)
	model := &train.Supervised{
		Net: net,
		LossFunc: func(scores, next *locus.Tensor) *locus.Tensor {
			return locus.CrossEntropy(scores.Transpose(1, 2), next, locus.CrossEntropyOptions{}) // classes on axis 1
		},
		Optimizer: func(params []nn.Entry) *optim.Optimizer { return optim.Adam(params, 0.005, optim.AdamOptions{}) },
	}
	fmt.Fprintf(w, "%d characters, %d different ones\n", len(chars), vocab.Len())
	trainer := train.New(train.MaxEpochs(epochs), train.Devices(device), train.ClipGradients(1),
		train.AfterEpoch(func(e *train.Epoch) error {
			// A perplexity of 3 means: as unsure as if three characters were equally likely.
			fmt.Fprintf(w, "epoch %2d  perplexity %6.3f\n", e.Number+1, math.Exp(e.Train["loss"]))
			return nil
		}))
	if _, err := trainer.Fit(model, train.Data{Train: set, BatchSize: 32}); err != nil {
		return err
	}
	fmt.Fprintln(w, net.write(device, vocab, prompt, 120))
	return nil
}

// write goes on from a prompt with the most likely character, n times. The
// characters stay on the device until the last of them is known.
func (m *LanguageModel) write(device locus.Device, vocab *data.Vocab, prompt string, n int) string {
	read := device.From(vocab.Encode(data.Chars(prompt))).Unsqueeze(0)
	var state nn.RecurrentState
	var written []*locus.Tensor
	locus.NoGrad(func() {
		for range n {
			var y *locus.Tensor
			y, state = m.RNN.Run(m.Embed.Forward(read), state)
			last := y.Slice(locus.All(), locus.At(-1))
			read = m.Out.Forward(last).ArgMax(1).Unsqueeze(0)
			written = append(written, read)
		}
	})
	numbers := locus.ToSlice[int64](locus.Concat(1, written...))
	return prompt + strings.Join(vocab.Decode(numbers), "")
}
