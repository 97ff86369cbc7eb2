// Command finetune trains a network on one task, saves it, and loads it into a
// network for another task: the body is kept as it is, and only a new head is
// trained, on very few examples. For comparison, the same network learns the same
// examples from nothing.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

func main() {
	folder, err := os.MkdirTemp("", "finetune")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := run(os.Stdout, locus.TryGPU(), filepath.Join(folder, "body.safetensors")); err != nil {
		log.Print(err)
	}
}

// Net is a body that finds features and a head that judges by them.
type Net struct {
	Body *nn.SequentialLayer
	Head *nn.LinearLayer
}

func newNet(classes int) *Net {
	return &Net{
		Body: nn.Sequential(nn.Flatten(), nn.LazyLinear(128), nn.ReLU(), nn.LazyLinear(64), nn.ReLU()),
		Head: nn.LazyLinear(classes),
	}
}

// Forward returns a score for each class.
func (n *Net) Forward(x *locus.Tensor) *locus.Tensor { return n.Head.Forward(n.Body.Forward(x)) }

func run(w io.Writer, device locus.Device, path string) error {
	learn, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}

	// The first task: which digit is it?
	teacher := newNet(10)
	accuracy, err := fit(teacher, device, learn, test)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "which digit? from %d examples:                        accuracy %.3f\n", learn.Len(), accuracy)
	if err := nn.Save(path, teacher); err != nil {
		return err
	}

	// The second task: is it odd? With few examples.
	few, err := data.Subset(learn, firstOf(30))
	if err != nil {
		return err
	}
	few, odd := data.Map(few, parity), data.Map(test, parity)
	if accuracy, err = fit(newNet(2), device, few, odd); err != nil {
		return err
	}
	fmt.Fprintf(w, "is it odd?   from %d examples, from nothing:            accuracy %.3f\n", few.Len(), accuracy)

	student := newNet(2)
	if err := nn.Load(path, student, withoutHead, nn.AllowMissing()); err != nil {
		return err
	}
	nn.Freeze(student.Body)
	if accuracy, err = fit(student, device, few, odd); err != nil {
		return err
	}
	fmt.Fprintf(w, "is it odd?   from %d examples, new head on that body:   accuracy %.3f\n\n", few.Len(), accuracy)

	for _, p := range nn.Parameters(student) {
		fmt.Fprintf(w, "%-14s frozen: %v\n", p.Name, p.Frozen())
	}
	return nil
}

// withoutHead leaves the head in the file: the second task has another.
var withoutHead = nn.Rename(func(name string) string {
	if strings.HasPrefix(name, "head.") {
		return ""
	}
	return name
})

// parity makes 0 of even and 1 of odd digits.
func parity(batch []*locus.Tensor, _ locus.Key) []*locus.Tensor {
	return []*locus.Tensor{batch[0], batch[1].Mod(2)}
}

func firstOf(n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	return at
}

// fit trains a network and returns its accuracy on the test set.
func fit(net *Net, device locus.Device, learn, test data.Dataset) (float64, error) {
	report, err := train.New(train.MaxEpochs(20), train.LearningRate(0.1), train.Devices(device)).
		Fit(train.Classifier(net), train.Data{Train: learn, Validation: test, BatchSize: 10})
	if err != nil {
		return 0, err
	}
	return report.Last().Validation["accuracy"], nil
}
