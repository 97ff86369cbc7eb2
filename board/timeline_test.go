package board

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const us = time.Microsecond

// stepSpans are those of a training step, with a hostile name among them.
func stepSpans(evil string) []Span {
	return []Span{
		{Row: "program, gpu:0", Kind: "program", Name: "host to device", Detail: "200704 bytes\nmain.go:40", Start: 100 * us, End: 180 * us},
		{Row: "gpu:0", Kind: "product", Name: "conv2d_act", Detail: "float32 (64, 1, 28, 28)\nmain.go:31", Start: 200 * us, End: 520 * us},
		{Row: "gpu:0", Kind: "elementwise", Name: "add+exp+mul", Detail: "float32 (64, 6)\nmain.go:32, main.go:33", Start: 520 * us, End: 600 * us},
		{Row: "gpu:0", Kind: "reduction, norm", Name: "sum", Start: 600 * us, End: 640 * us},
		{Row: "gpu:0", Kind: "product", Name: "matmul", Start: 640 * us, End: 900 * us},
		{Row: "gpu:0", Kind: "update", Name: "update_all", Start: 900 * us, End: 960 * us},
		{Row: "gpu:1", Kind: "something else", Name: evil, Detail: evil, Start: 300 * us, End: 700 * us},
		{Row: "gpu:1", Kind: "product", Name: "beside", Start: 400 * us, End: 800 * us},
		{Row: "program, gpu:0", Kind: "program", Name: "wait", Start: 200 * us, End: 1100 * us},
	}
}

const hostile = `<img src=x onerror="window.hacked=1">&"'`

func TestTimeline(t *testing.T) {
	var b Board
	if err := b.WriteTimelineSVG(io.Discard); err == nil {
		t.Error("a timeline of nothing")
	}
	b.SetTimeline("A step of "+hostile, stepSpans(hostile))
	var svg bytes.Buffer
	if err := b.WriteTimelineSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "img" {
			t.Error("a name is markup")
		}
	}
	for _, want := range []string{"conv2d_act", "gpu:1", "program, gpu:0", "add+exp+mul", "main.go:33"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	var wire struct {
		Rows, Texts []string
		Spans       [][6]float64
		Left        int
	}
	stream := &stream{board: &b}
	read := func() (found bool) {
		_, text, found := strings.Cut(string(stream.next()), "event: timeline\ndata: ")
		if !found {
			return false
		}
		text, _, _ = strings.Cut(text, "\n")
		wire.Rows, wire.Spans, wire.Left = nil, nil, 0
		if err := json.Unmarshal([]byte(text), &wire); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if !read() || strings.Join(wire.Rows, ";") != "gpu:0;gpu:1;program, gpu:0" || len(wire.Spans) != 9 {
		t.Fatalf("%+v", wire)
	}
	if s := wire.Spans[0]; s[0] != 2 || s[2] != 0 || s[3] != 80 || wire.Texts[int(s[4])] != "host to device" {
		t.Errorf("the first span is %v", s)
	}
	if read() {
		t.Error("it is sent again")
	}
	b.SetTimeline("long", make([]Span, maxSpans+7))
	if !read() || len(wire.Spans) != maxSpans || wire.Left != 7 {
		t.Errorf("%d spans of many, %d left", len(wire.Spans), wire.Left)
	}
	b.SetTimeline("", nil)
	if !read() || wire.Spans != nil {
		t.Errorf("after the end: %+v", wire)
	}
	// Spans that end before they begin, and far apart, do no harm.
	b.SetTimeline("odd", []Span{{Start: 5, End: 3}, {Start: -1 << 62, End: 1 << 62}})
	if err := b.WriteTimelineSVG(io.Discard); err != nil || !read() {
		t.Error(err)
	}
}

func TestServeTimeline(t *testing.T) {
	var b Board
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	get := func(path string) (int, string) {
		r, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, r.Header.Get("Content-Type") + "\n" + string(text)
	}
	if code, _ := get("/timeline.svg"); code != 404 {
		t.Errorf("without a timeline: %d", code)
	}
	b.SetTimeline("A step", stepSpans("x"))
	if code, text := get("/timeline.svg"); code != 200 || !strings.HasPrefix(text, "image/svg+xml\n<svg") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get("/timeline.js"); code != 200 || !strings.Contains(text, "class Strip") {
		t.Errorf("%d", code)
	}
}
