package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/printable"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
	"github.com/locusml/locus/weights/checkpoint"
)

// Card says what a file of weights is of: enough to make the network again.
type Card struct {
	Model   string         `json:"model"`
	Data    string         `json:"data"`
	Input   []int          `json:"input"` // channels, height, width
	Classes []string       `json:"classes"`
	Hyper   map[string]any `json:"hyperparameters,omitempty"`
	Result  map[string]any `json:"result,omitempty"`
	Made    string         `json:"made,omitempty"`    // by which version of what
	Encoder *data.Encoder  `json:"encoder,omitempty"` // of a table's rows
	Scaler  *data.Scaler   `json:"scaler,omitempty"`  // of the numbers that were learned; nil for classes
	Target  string         `json:"target,omitempty"`  // the table's column that was learned; "" the last
}

// Task is what the network has learned: classes or numbers.
func (c Card) Task() string {
	if c.Scaler != nil {
		return Numbers
	}
	return Classes
}

// cardKey is the entry of a file's metadata that holds its card.
const cardKey = "locus"

// maxCard bounds what is read of a card.
const maxCard = 16 << 20

// CardFile lies next to the checkpoints of a run, which do not hold it.
const CardFile = "run.json"

// Save writes a network's parameters with its card.
func Save(path string, net nn.Module, card Card) error {
	text, err := json.Marshal(card)
	if err != nil {
		return err
	}
	meta := map[string]string{cardKey: string(text), "format": "pt"} // what other readers of the format look for
	return weights.Save(path, nn.TreeOf(net), meta)
}

// WriteCard writes a card alone, whole or not at all.
func WriteCard(path string, card Card) error {
	text, err := json.MarshalIndent(card, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(disk.OS, path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// ErrNoCard is in the chain of [Load]'s error for a file that does not say which
// network it is of.
var ErrNoCard = errors.New("the file does not say which network it belongs to")

// Load reads a network from a file of weights, or from the last checkpoint in a
// folder, and puts it on d. Fields of override that are set replace the card's.
func Load(path string, override Card, d locus.Device) (nn.Module, Card, error) {
	f, prefix, card, err := open(path)
	if err != nil {
		return nil, card, err
	}
	defer f.Close()
	if override.Model != "" {
		card.Model = override.Model
	}
	if override.Data != "" {
		card.Data = override.Data
	}
	if len(override.Input) > 0 {
		card.Input, card.Classes = override.Input, override.Classes
	}
	if card.Model == "" || len(card.Input) == 0 {
		return nil, card, fmt.Errorf("%s: %w; give --model and --data", path, ErrNoCard)
	}
	net, err := Build(card.Model, card.Input, outputs(card.Classes, card.Scaler), 0)
	if err != nil {
		return nil, card, fmt.Errorf("%s: %w", path, err)
	}
	nn.To(net, d)
	for _, e := range nn.State(net) {
		info, ok := f.Info(prefix + e.Name)
		if !ok {
			return nil, card, fmt.Errorf("%s: not the weights of a %s: it has no %q but %s", path, card.Model, prefix+e.Name, some(f.Names()))
		}
		if !slices.Equal(info.Shape, e.Value().Shape()) {
			return nil, card, fmt.Errorf("%s: not the weights of a %s for %s: %s has shape %v, not %v", path, card.Model, card.Data, e.Name, info.Shape, e.Value().Shape())
		}
		t, err := f.Load(prefix+e.Name, d)
		if err != nil {
			return nil, card, err
		}
		if err := locus.Try(func() { e.Set(t.Cast(e.Value().DType())) }); err != nil {
			return nil, card, err
		}
	}
	return nn.Eval[nn.Module](net), card, nil
}

// open finds the tensors at path, what stands before their names, and the card.
func open(path string) (f *weights.File, prefix string, card Card, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", card, err
	}
	if info.IsDir() {
		return openCheckpoint(path)
	}
	if f, err = weights.Open(path); err != nil {
		return nil, "", card, err
	}
	if text, ok := f.Metadata()[cardKey]; ok {
		if err := json.Unmarshal([]byte(text), &card); err != nil {
			f.Close()
			return nil, "", card, fmt.Errorf("%s: its entry %q cannot be read: %w", path, cardKey, err)
		}
	}
	return f, "", card, nil
}

// checkpointPrefix is how train names the parameters of a classifier's network.
const checkpointPrefix = "model.net."

func openCheckpoint(path string) (*weights.File, string, Card, error) {
	var card Card
	dir, err := checkpoint.Open(path, 0)
	if err != nil {
		return nil, "", card, err
	}
	c, err := dir.Latest()
	if err != nil {
		return nil, "", card, err
	}
	for _, folder := range []string{path, filepath.Dir(filepath.Clean(path))} {
		text, err := disk.ReadFile(filepath.Join(folder, CardFile), maxCard)
		if err != nil {
			continue
		}
		if err := json.Unmarshal(text, &card); err != nil {
			c.Close()
			return nil, "", card, fmt.Errorf("%s: %w", filepath.Join(folder, CardFile), err)
		}
		break
	}
	return c.Tensors, checkpointPrefix, card, nil
}

// CardOf reads the card in a file's metadata, if it has one.
func CardOf(meta map[string]string) (card Card, ok bool) {
	return card, json.Unmarshal([]byte(meta[cardKey]), &card) == nil
}

// OtherMetadata returns a file's metadata without the card.
func OtherMetadata(meta map[string]string) map[string]string {
	rest := maps.Clone(meta)
	delete(rest, cardKey)
	return rest
}

func some(names []string) string {
	if len(names) > 3 {
		return printable.Text(strings.Join(names[:3], ", ")) + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return printable.Text(strings.Join(names, ", "))
}
