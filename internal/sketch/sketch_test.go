package sketch

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// evil is a name that would be markup if nobody escaped it.
const evil = "<script>alert(1)</script>\"'&]]>\x00\xff\\\n\"];x"

// document parses a picture, and returns the text in it and how often each element
// occurs.
func document(t *testing.T, write func(io.Writer) error) (text string, count map[string]int) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("a coordinate is no number:\n%s", b.String())
	}
	if m := regexp.MustCompile(`(width|height)="-`).FindString(b.String()); m != "" {
		t.Errorf("something has a negative size: %s", m)
	}
	if m := regexp.MustCompile(`(?i)(href|src|url\(|@import)`).FindString(b.String()); m != "" {
		t.Errorf("the picture refers to %s", m)
	}
	d := xml.NewDecoder(&b)
	count = map[string]int{}
	var s strings.Builder
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return s.String(), count
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := tok.(type) {
		case xml.StartElement:
			count[x.Name.Local]++
		case xml.CharData:
			s.Write(x)
			s.WriteByte('\n')
		}
	}
}

func has(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func TestGraph(t *testing.T) {
	g := &Graph{Title: "A program", Notes: []string{"4 steps"}, Boxes: []Box{
		{Kind: Product, Number: "0", Title: "matmul", Makes: "float32 (2, 3)", Reads: []string{"argument 0", "argument 1"}, Site: "main.go:1", Tip: "the whole of it", Time: "3µs · 75 %", Share: 0.75},
		{Kind: Elementwise, Number: "1", Title: "3 ops in one pass", Parts: []string{"add", "exp", "mul"}, Site: "main.go:2"},
		{Kind: Reduction, Number: "2", Title: "sum"},
		{Kind: Update, Number: "3", Title: evil, Parts: []string{evil}, Makes: evil, Reads: []string{evil}, Writes: []string{"result 0"}, Site: evil, Tip: evil, Time: evil},
	}, Edges: []Edge{{0, 1, "%1"}, {1, 2, "%2"}, {0, 3, "%1 of matmul"}, {1, 3, evil}, {0, 2, "%1 of matmul"}}}
	text, count := document(t, g.WriteSVG)
	has(t, text, "A program", "matmul", "add", "exp", "mul", "main.go:1", "argument 0, argument 1", "the whole of it", "3µs · 75 %", "%1 of matmul", "elementwise")
	if count["script"] != 0 || count["svg"] != 1 || count["path"] != 2+2*2 || count["line"] != 2 {
		t.Errorf("elements: %v", count)
	}
	var b strings.Builder
	if err := g.WriteDOT(&b); err != nil {
		t.Fatal(err)
	}
	dot := b.String()
	has(t, dot, `label="A program\n4 steps"`, "s0 -> s1 [label=\"%1\"];", "s0 -> s3", "add · exp · mul", `[label="argument 0", shape=ellipse`)
	if bare := regexp.MustCompile(`"(\\.|[^"\\])*"`).ReplaceAllString(dot, ""); strings.ContainsAny(bare, "\"\x00<") || strings.Count(bare, "{") != 1 || strings.Count(bare, ";x") != 0 {
		t.Errorf("a name is not quoted:\n%s", bare)
	}
	text, _ = document(t, (&Graph{Title: "nothing"}).WriteSVG)
	has(t, text, "nothing")
}

// Lanes of values that are kept at the same time do not share a place.
func TestLanes(t *testing.T) {
	g := &Graph{}
	for i := range 40 {
		g.Boxes = append(g.Boxes, Box{Title: fmt.Sprint(i)})
		for _, k := range []int{2, 5, 11} {
			if to := i + k; to < 40 {
				g.Edges = append(g.Edges, Edge{i, to, fmt.Sprint("value ", i)})
			}
		}
	}
	all, n := g.lanes()
	for i, a := range all {
		for _, b := range all[:i] {
			if a.at == b.at && a.from < b.end() && b.from < a.end() {
				t.Errorf("%+v and %+v", a, b)
			}
		}
		if a.at >= n {
			t.Errorf("lane %d of %d", a.at, n)
		}
	}
	if n > 20 { // 11 would do
		t.Errorf("%d lanes", n)
	}
	document(t, g.WriteSVG)
}

func TestMemory(t *testing.T) {
	m := &Memory{Title: "Memory", Steps: []string{"matmul", "exp", evil}, Arena: 3 << 20, Blocks: []Block{
		{Kind: Product, From: 0, To: 1, Offset: 0, Size: 1 << 20, Label: "matmul", Tip: "%1 of matmul", Taken: true},
		{Kind: Elementwise, From: 1, To: 2, Offset: 0, Size: 1 << 20, Over: true, Label: "exp"},
		{Kind: Other, From: 1, To: 1, Offset: 1 << 20, Size: 2 << 20, Label: evil, Tip: evil},
	}, Lists: []List{{"Results", make([]string, 0)}, {"Updated in place", []string{evil, "variable 1"}}}}
	for i := range 50 {
		m.Lists[1].Lines = append(m.Lists[1].Lines, fmt.Sprint("more ", i))
	}
	if step, bytes := m.Peak(); step != 1 || bytes != 3<<20 {
		t.Errorf("peak of %d at %d", bytes, step)
	}
	text, count := document(t, m.WriteSVG)
	has(t, text, "peak: 3 MiB in use at step 1, exp", "%1 of matmul", "Updated in place", "and 41 more", "product", "2 MiB")
	if strings.Contains(text, "Results") || count["script"] != 0 {
		t.Error(text)
	}
	document(t, (&Memory{}).WriteSVG)
	document(t, (&Memory{Steps: make([]string, 30000), Arena: 1 << 62}).WriteSVG)
}

func TestTimeline(t *testing.T) {
	line := &Timeline{Title: "A step", Rows: []Row{{Name: "gpu:0"}, {Name: evil}}}
	for i := range 100000 {
		at := time.Duration(i) * time.Microsecond
		line.Rows[0].Spans = append(line.Rows[0].Spans, Span{Kind: Product, Name: "matmul", Start: at, End: at + 2*time.Microsecond})
	}
	line.Rows[1].Spans = []Span{{Kind: Host, Name: "wait", Tip: evil, Start: 0, End: 50 * time.Millisecond}, {Kind: Host, Name: evil, Start: time.Millisecond, End: 60 * time.Millisecond}}
	var b bytes.Buffer
	if err := line.WriteSVG(&b); err != nil || b.Len() > 2<<20 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	text, count := document(t, line.WriteSVG)
	has(t, text, "A step", "gpu:0", "wait", "20 ms", "program")
	if count["script"] != 0 {
		t.Error("a name is markup")
	}
	document(t, (&Timeline{}).WriteSVG)
	document(t, (&Timeline{Rows: []Row{{Spans: []Span{{}}}}}).WriteSVG)
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 7: "7 ns", 1500: "1.5 µs", 2e6: "2 ms", 3e9: "3 s"} {
		if got := timeLabel(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
	if got := fit("abcdefghij", 10, 30); got != "abcd…" {
		t.Error(got)
	}
	for _, n := range []int{0, 1, 7, 1000, 1 << 62} {
		if l := ticks(n); len(l) > 8 || l[0] != 0 {
			t.Errorf("%d: %v", n, l)
		}
	}
}
