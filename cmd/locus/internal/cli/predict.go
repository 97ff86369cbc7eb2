package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/cmd/locus/internal/predict"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/internal/printable"
	"github.com/locusml/locus/nn"
)

type predictFlags struct {
	card   model.Card
	source data.Source
	device string
	batch  int
	top    int
	invert bool
	asJSON bool
}

func (a *app) predict() *cobra.Command {
	f := &predictFlags{}
	c := &cobra.Command{
		Use:   "predict WEIGHTS [FILE...]",
		Short: "Use a trained network on pictures, or measure it on its test set",
		Long: `Loads a network from a file of weights that locus train has written, or from a
folder of checkpoints, and classifies the given pictures. A network that was
trained on a CSV file predicts the rows of the given CSV files. Without files it
is measured on the test set of its data.

Weights that do not name their network and data need --model and --data.`,
		Example: `  locus predict runs/digits-mlp/weights.safetensors
  locus predict runs/mnist-lenet/weights.safetensors --invert seven.png`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.runPredict(c, f, args[0], args[1:]) },
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.device, "device", "", "where to compute (gpu:0 if there is one, else cpu)")
	fl.StringVar(&f.card.Model, "model", "", "the network that the weights belong to: "+strings.Join(model.Names, ", "))
	fl.StringVar(&f.card.Data, "data", "", "the data whose test set is used: "+strings.Join(model.DataNames, ", "))
	fl.StringVar(&f.source.Folder, "data-dir", "", "folder with the data's files")
	fl.BoolVar(&f.source.Download, "download", false, "fetch the data's files if they are missing")
	fl.IntVar(&f.batch, "batch", 256, "examples at a time")
	fl.IntVar(&f.top, "top", 3, "how many classes to name for a picture")
	fl.BoolVar(&f.invert, "invert", false, "swap light and dark: for ink on paper, since the data has a dark background")
	jsonFlag(c, &f.asJSON)
	complete(c, "data", completeWords(model.DataNames...))
	complete(c, "model", completeWords(model.Names...))
	complete(c, "device", completeDevices)
	return c
}

func (a *app) runPredict(c *cobra.Command, f *predictFlags, path string, pictures []string) error {
	if f.batch < 1 || f.top < 1 {
		return usagef("--batch and --top must be at least 1")
	}
	device := locus.TryGPU()
	if f.device != "" {
		list, err := parseDevices("device", f.device)
		if err != nil {
			return err
		}
		device = list[0]
	}
	var set model.Set
	var err error
	if f.card.Data != "" {
		if set, err = model.OpenData(f.card.Data, model.Options{Source: f.source}); err != nil {
			return err
		}
		f.card.Input, f.card.Classes = set.Input, set.Test.Classes
	}
	net, card, err := model.Load(path, f.card, device)
	if err != nil {
		return err
	}
	if len(pictures) > 0 {
		return a.predictPictures(f, net, card, device, pictures)
	}
	if set.Test == nil || card.Encoder != nil { // a table is encoded as the network knows it
		size := 0
		if len(card.Input) == 3 {
			size = card.Input[1]
		}
		o := model.Options{Source: f.source, Size: size, Target: card.Target, Task: card.Task()}
		if card.Encoder != nil {
			o.As = &card
		}
		if set, err = model.OpenData(card.Data, o); err != nil {
			return err
		}
	}
	if card.Scaler != nil {
		t, err := predict.TestNumbers(c.Context(), net, device, set.Test, card.Scaler, f.batch)
		if err != nil {
			return err
		}
		if f.asJSON {
			return a.json(map[string]any{"weights": path, "model": card.Model, "data": card.Data, "device": device, "test": t})
		}
		a.out.Text(fmt.Sprintf("%s on the test set of %s, on %s: RMSE %.4g, mean error %.4g, R² %.4f on %s rows.", printable.Text(card.Model), printable.Text(card.Data), device,
			t.RMSE, t.MAE, t.R2, text.Count(t.Examples)))
		return nil
	}
	t, err := predict.TestSet(c.Context(), net, device, set.Test, f.batch)
	if err != nil {
		return err
	}
	if f.asJSON {
		return a.json(map[string]any{"weights": path, "model": card.Model, "data": card.Data, "device": device, "test": t})
	}
	a.showTest(card, device, t)
	return nil
}

func (a *app) showTest(card model.Card, d locus.Device, t *predict.Test) {
	o := a.out
	o.Text(fmt.Sprintf("%s on the test set of %s, on %s: %s of %s right (%.1f %%), loss %.4f.", printable.Text(card.Model), printable.Text(card.Data), d,
		text.Count(t.Right), text.Count(t.Examples), 100*t.Accuracy, t.Loss))
	o.Println()
	table := &text.Table{Head: []string{"class", "examples", "right", "", "most frequent mistake"}, Right: map[int]bool{1: true, 2: true}, Shrink: -1}
	for _, c := range t.Classes {
		part := 0.0
		if c.Examples > 0 {
			part = float64(c.Right) / float64(c.Examples)
		}
		other := ""
		if c.Times > 0 {
			other = fmt.Sprintf("%s (%s)", printable.Text(c.TakenFor), text.Count(c.Times))
		}
		table.Add(printable.Text(c.Name), text.Count(c.Examples), fmt.Sprintf("%.1f %%", 100*part), plainBar(o, part, 20), other)
	}
	o.Table(table, 0)
}

// plainBar is a bar in which full is good.
func plainBar(o *text.Out, part float64, width int) string {
	plain := *o
	plain.Color = false
	return o.Style(text.Green, plain.Bar(part, width))
}

func (a *app) predictPictures(f *predictFlags, net nn.Module, card model.Card, d locus.Device, files []string) error {
	var list []predict.Prediction
	var err error
	if card.Encoder != nil {
		list, err = predict.Rows(net, d, card, files, f.top)
	} else {
		list, err = predict.Images(net, d, card.Input, card.Classes, files, f.invert, f.top)
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		return a.json(map[string]any{"model": card.Model, "data": card.Data, "device": d, "predictions": list})
	}
	o := a.out
	for _, p := range list {
		if card.Scaler != nil {
			o.Printf("%s  %.5g\n", printable.Text(p.File), p.Value)
			continue
		}
		o.Heading(printable.Text(p.File))
		for _, g := range p.Top {
			o.Printf("  %s  %5.1f %%  %s\n", text.Pad(printable.Text(g.Class), 12), 100*g.Probability, plainBar(o, g.Probability, 20))
		}
	}
	for _, p := range list {
		if p.Light && slices.Contains(model.DataNames, card.Data) {
			a.err.Println(a.err.Style(text.Dim, fmt.Sprintf("note: %s is light at its border, and %s has a dark background; --invert may help", printable.Text(p.File), printable.Text(card.Data))))
			break
		}
	}
	return nil
}
