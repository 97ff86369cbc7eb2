package board_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/locusml/locus/board"
)

func Example() {
	dir, err := os.MkdirTemp("", "board")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	var b board.Board
	if err := b.SetAxes("", board.Axes{Title: "Linear regression", XLabel: "epoch", YLabel: "loss", YScale: board.Log}); err != nil {
		fmt.Println(err)
		return
	}
	if err := b.LogCSV(filepath.Join(dir, "run.csv")); err != nil {
		fmt.Println(err)
		return
	}
	const epochs, steps = 3, 4
	loss := 8.0
	for epoch := range epochs {
		for step := range steps {
			x := float64(epoch) + float64(step)/steps
			b.Draw("train_loss", x, loss, steps/2) // the mean of each half epoch
			loss /= 2
		}
	}
	if err := b.Save(filepath.Join(dir, "loss.png")); err != nil {
		fmt.Println(err)
	}
	if err := b.Close(); err != nil {
		fmt.Println(err)
	}

	text, err := os.ReadFile(filepath.Join(dir, "run.csv"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		_, rest, _ := strings.Cut(line, ",") // without the time
		fmt.Println(rest)
	}
	// Output:
	// series,x,y
	// train_loss,0.125,6
	// train_loss,0.625,1.5
	// train_loss,1.125,0.375
	// train_loss,1.625,0.09375
	// train_loss,2.125,0.0234375
	// train_loss,2.625,0.005859375
}

func ExampleMatrix() {
	dir, err := os.MkdirTemp("", "board")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	confusion := board.Matrix{
		Title:  "Confusion matrix",
		Values: [][]float64{{48, 2}, {3, 47}},
		Rows:   []string{"cat", "dog"}, Columns: []string{"cat", "dog"},
		YLabel: "shown", XLabel: "predicted",
		ByRow: true, HideZeros: true,
	}
	fmt.Println(confusion.Save(filepath.Join(dir, "confusion.svg")))
	// Output: <nil>
}

func ExampleBoard_Load() {
	dir, err := os.MkdirTemp("", "board")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	both := new(board.Board)
	for _, run := range []string{"monday", "tuesday"} {
		log := filepath.Join(dir, run+".csv")
		var b board.Board
		if err := b.LogCSV(log); err != nil {
			fmt.Println(err)
			return
		}
		b.Draw("loss/train", 1, 0.5, 1)
		if err := b.Close(); err != nil {
			fmt.Println(err)
			return
		}
		if err := both.Load(log, run); err != nil { // the curves "monday train" and "tuesday train"
			fmt.Println(err)
			return
		}
	}
	fmt.Println(both.Panels())
	// Output: [loss]
}
