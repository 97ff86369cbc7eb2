package train_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/board"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
	"github.com/locusml/locus/train/metric"
)

// fitOnBoard trains a small classifier and returns the points by series.
func fitOnBoard(t *testing.T, b *board.Board, opts ...train.Option) map[string][]board.Point {
	t.Helper()
	x := locus.CPU().Key(locus.NewKey(2)).Randn(64, 2)
	set, err := data.NewTensorDataset(x, x.Sum(1).Gt(0).Cast(locus.Int64))
	if err != nil {
		t.Fatal(err)
	}
	points := map[string][]board.Point{}
	cancel := b.Subscribe(func(l []board.Point) {
		for _, p := range l {
			points[p.Series] = append(points[p.Series], p)
		}
	})
	_, err = train.New(opts...).Fit(train.Classifier(nn.Sequential(nn.LazyLinear(2))), train.Data{Train: set, Validation: set, BatchSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	return points
}

func TestCurves(t *testing.T) {
	var b board.Board
	points := fitOnBoard(t, &b, train.Board(&b), train.MaxEpochs(4), train.LogEvery(3), train.Devices(gpus[:2]...),
		train.Schedule(optim.Cosine(100, 0)), train.Measure(metric.F1(2, metric.Macro)))
	if got := b.Panels(); !slices.Equal(got, []string{"loss", "accuracy", "f1", "throughput", "memory", "learning rate"}) {
		t.Errorf("panels %q", got)
	}
	xs := func(name string) string {
		var l []float64
		for _, p := range points[name] {
			l = append(l, p.X)
		}
		return fmt.Sprint(l)
	}
	// Eight steps per epoch, read after the third and the sixth, and at the end.
	inTraining := "[0.375 0.75 1 1.375 1.75 2 2.375 2.75 3 3.375 3.75 4]"
	for name, want := range map[string]string{"loss/training": inTraining, "f1/training": inTraining, "throughput/training": inTraining, "memory/" + gpus[0].String(): inTraining,
		"memory/" + gpus[1].String(): inTraining, "learning rate/learning rate": inTraining, "loss/validation": "[1 2 3 4]", "accuracy/validation": "[1 2 3 4]"} {
		if got := xs(name); got != want {
			t.Errorf("%s has points at %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"throughput/training", "memory/" + gpus[0].String()} {
		for _, p := range points[name] {
			if !(p.Y > 0) {
				t.Errorf("%s is %v", name, p.Y)
			}
		}
	}
	if a := b.Axes("loss"); a.XLim != [2]float64{0, 4} || a.XLabel != "epoch" {
		t.Errorf("axes %+v", a)
	}
	if !b.Axes("throughput").YFromZero || !b.Axes("memory").YFromZero || b.Axes("accuracy").YFromZero {
		t.Error("costs are read from 0, metrics are not")
	}
	var svg bytes.Buffer
	if err := b.WriteSVG(&svg); err != nil || strings.Count(svg.String(), ">epoch<") != 6 {
		t.Error(err, strings.Count(svg.String(), ">epoch<"))
	}
}

// What the program has set stays; a run that ends early has its own end; runs with
// names share panels.
func TestCurvesOfSeveralRuns(t *testing.T) {
	var b board.Board
	if err := b.SetAxes("loss", board.Axes{YLabel: "nats", YScale: board.Log}); err != nil {
		t.Fatal(err)
	}
	if err := b.SetAxes("accuracy", board.Axes{XLabel: "pass", XScale: board.Log}); err != nil { // which cannot begin at 0
		t.Fatal(err)
	}
	stop := train.AfterEpoch(func(e *train.Epoch) error {
		if e.Number == 1 {
			return train.ErrStop
		}
		return nil
	})
	fitOnBoard(t, &b, train.Board(&b, "slow"), train.MaxEpochs(50), train.LearningRate(0.01), stop)
	if a := b.Axes("loss"); a.YLabel != "nats" || a.YScale != board.Log || a.XLim != [2]float64{0, 2} {
		t.Errorf("axes %+v", a)
	}
	if a := b.Axes("accuracy"); a.XLabel != "pass" || a.XLim != [2]float64{} {
		t.Errorf("axes %+v", a)
	}
	points := fitOnBoard(t, &b, train.Board(&b, "lr", "0.5"), train.MaxEpochs(3), train.LearningRate(0.5))
	if len(points["loss/lr 0.5 training"]) != 3 || len(points["loss/lr 0.5 validation"]) != 3 {
		t.Errorf("%v", points)
	}
	if a := b.Axes("loss"); a.XLim != [2]float64{0, 3} {
		t.Errorf("axes %+v", a)
	}
	if n := len(b.Panels()); n != 4 {
		t.Errorf("%d panels", n)
	}
}

// A run that goes on from a checkpoint draws the epochs before it too, on a board
// that does not have them.
func TestCurvesOfAResumedRun(t *testing.T) {
	folder := t.TempDir()
	var first board.Board
	fitOnBoard(t, &first, train.Board(&first), train.MaxEpochs(2), train.Checkpoints(folder, 1))
	for name, b := range map[string]*board.Board{"another board": {}, "the same board": &first} {
		points := fitOnBoard(t, b, train.Board(b), train.MaxEpochs(4), train.Checkpoints(t.TempDir(), 1))
		if len(points["loss/training"]) != 4 {
			t.Errorf("%s, from the beginning: %v", name, points["loss/training"])
		}
	}
	for name, c := range map[string]struct {
		b    *board.Board
		want string
	}{"another board": {new(board.Board), "[1 2 3]"}, "the same board": {&first, "[3]"}} {
		at := t.TempDir()
		if err := os.CopyFS(at, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		points := fitOnBoard(t, c.b, train.Board(c.b), train.MaxEpochs(3), train.Checkpoints(at, 1), train.Resume())
		for _, series := range []string{"loss/training", "accuracy/validation", "throughput/training"} {
			var xs []float64
			for _, p := range points[series] {
				xs = append(xs, p.X)
			}
			if fmt.Sprint(xs) != c.want {
				t.Errorf("%s: %s at %v, want %s", name, series, xs, c.want)
			}
		}
	}
}
