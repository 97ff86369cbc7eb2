package board_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/locusml/locus/board"
)

// Show how far a program is, and its latest numbers. On a terminal this is one line that is
// kept up to date; elsewhere a line is written now and then, here only the last.
func ExampleNewProgress() {
	var out strings.Builder // usually os.Stderr
	p := board.NewProgress(&out, board.Plan{Title: "digits", Epochs: 2, Steps: 100, Unit: "batch", Every: -time.Second})
	for epoch := 1; epoch <= 2; epoch++ {
		p.Epoch(epoch)
		for range 100 {
			p.Add(1)
		}
		p.Set("loss", 1/float64(epoch))
	}
	p.Close()
	for _, part := range []string{"digits", "epoch 2/2", "100/100", "loss 0.5"} {
		fmt.Println(part, strings.Contains(out.String(), part))
	}
	// Output:
	// digits true
	// epoch 2/2 true
	// 100/100 true
	// loss 0.5 true
}

// Watch curves in a browser while a program runs. Without a host in the address only this
// machine can see them.
func ExampleBoard_Serve() {
	var b board.Board
	url, err := b.Serve(":0") // any free port; "" is 7788
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	b.Draw("loss", 1, 0.5, 1)
	answer, err := http.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	// Output:
	// 200 OK text/html; charset=utf-8
}

// Show the curves as a part of a server of one's own.
func ExampleBoard_Handler() {
	var b board.Board
	defer b.Close()
	b.Draw("loss", 1, 0.5, 1)
	mux := http.NewServeMux()
	mux.Handle("/training/", http.StripPrefix("/training", b.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/training/")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output:
	// 200 OK
}

// Show a progress on the page of a board as well: with a nil writer there only.
func ExampleBoard_Track() {
	var b board.Board
	p := board.NewProgress(nil, board.Plan{Epochs: 2, Steps: 100})
	b.Track(p)
	p.Epoch(1)
	p.Add(100)
	p.Close()
	fmt.Println(b.Close())
	// Output:
	// <nil>
}

// Write every point to a file of JSON lines as it is drawn, and for TensorBoard: here x counts
// epochs of 50 steps.
func ExampleBoard_LogTensorBoard() {
	folder, err := os.MkdirTemp("", "logs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	var b board.Board
	if err := errors.Join(b.LogTensorBoard(filepath.Join(folder, "tb"), 50), b.LogJSON(filepath.Join(folder, "run.jsonl"))); err != nil {
		log.Fatal(err)
	}
	b.Draw("loss", 1, 0.5, 1)
	b.Draw("loss", 2, 0.25, 1)
	if err := b.Close(); err != nil { // completes the files
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "run.jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	events, err := filepath.Glob(filepath.Join(folder, "tb", "*tfevents*"))
	fmt.Println(strings.Count(string(text), `"series":"loss"`), len(events), err)
	// Output:
	// 2 1 <nil>
}

// Labels, limits and scales of a panel's axes.
func ExampleBoard_SetAxes() {
	var b board.Board
	err := b.SetAxes("loss", board.Axes{
		Title: "Loss", XLabel: "epoch", YLabel: "cross-entropy",
		XLim: [2]float64{0, 10}, YLim: [2]float64{0.01, 10}, YScale: board.Log,
	})
	if err != nil {
		log.Fatal(err)
	}
	b.SetAxes("accuracy", board.Axes{XScale: board.Linear, YFromZero: true})
	for epoch := range 10 {
		b.Draw("loss/train", float64(epoch), math.Exp(-float64(epoch)/3), 1)
		b.Draw("accuracy/train", float64(epoch), 1-math.Exp(-float64(epoch)/3), 1)
	}
	var svg strings.Builder
	if err := b.WriteSVG(&svg); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Panels(), strings.Contains(svg.String(), "cross-entropy"))
	// Output:
	// [loss accuracy] true
}

// Pass points on to a program of one's own, such as a database, without holding up training.
func ExampleBoard_Subscribe() {
	var b board.Board
	var sum float64
	cancel := b.Subscribe(func(points []board.Point) {
		for _, p := range points {
			sum += p.Y
		}
	})
	for i := range 100 {
		b.Draw("loss", float64(i), 1, 1)
	}
	cancel() // returns when all points have been seen
	fmt.Println(sum)
	// Output:
	// 100
}

// Show what ran when, below the curves. The trainer's Profile draws its steps so.
func ExampleBoard_SetTimeline() {
	var b board.Board
	b.SetTimeline("one step", []board.Span{
		{Row: "cpu", Name: "read a batch", Start: 0, End: time.Millisecond},
		{Row: "gpu:0", Kind: "product", Name: "matmul", Detail: "64×64", Start: time.Millisecond, End: 3 * time.Millisecond},
	})
	fmt.Println(b.WriteTimelineSVG(io.Discard))
	// Output:
	// <nil>
}

// Write a picture, and one panel of it for a page.
func ExampleBoard_WritePanelSVG() {
	var b board.Board
	for x := range 5 {
		b.Draw("loss/train", float64(x), 1/float64(x+1), 1)
		b.Draw("rate/train", float64(x), 100, 1)
	}
	var png, svg strings.Builder
	if err := errors.Join(b.WritePNG(&png), b.WritePanelSVG(&svg, "loss")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(png.String(), "\x89PNG"), strings.Contains(svg.String(), "<svg"))
	// Output:
	// true true
}

// Write a line above the bar.
func ExampleProgress_Printf() {
	var out strings.Builder
	p := board.NewProgress(&out, board.Plan{Steps: 10})
	p.Printf("reading %s", "digits")
	p.Add(10)
	p.Close()
	fmt.Println(strings.HasPrefix(out.String(), "reading digits\n"))
	// Output:
	// true
}
