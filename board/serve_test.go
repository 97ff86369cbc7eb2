package board

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is a client of the event stream that keeps what a browser would.
type page struct {
	t      *testing.T
	lines  *bufio.Scanner
	panels []wirePanel
	curves map[int]*pageCurve
	state  struct {
		Fraction float64
		Done     bool
		Text     []string
	}
	ended bool
	bytes int
}

type pageCurve struct {
	buckets [][]json.RawMessage
	count   int64
	last    []json.RawMessage
}

func openPage(t *testing.T, url string) *page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, "GET", url+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("status %d, type %s", response.StatusCode, got)
	}
	p := &page{t: t, lines: bufio.NewScanner(response.Body), curves: map[int]*pageCurve{}}
	p.lines.Buffer(nil, 16<<20)
	return p
}

// until takes messages in until ok.
func (p *page) until(ok func() bool) {
	p.t.Helper()
	event := ""
	for !ok() {
		if !p.lines.Scan() {
			p.t.Fatalf("the stream ended: %v", p.lines.Err())
		}
		line := p.lines.Text()
		p.bytes += len(line)
		if name, found := strings.CutPrefix(line, "event: "); found {
			event = name
		}
		data, found := strings.CutPrefix(line, "data: ")
		if !found {
			continue
		}
		var err error
		switch event {
		case "panels":
			err = json.Unmarshal([]byte(data), &p.panels)
		case "progress":
			err = json.Unmarshal([]byte(data), &p.state)
		case "end":
			p.ended = true
		case "points":
			var all []struct {
				ID, From int
				Count    int64
				Last     []json.RawMessage
				Buckets  [][]json.RawMessage
			}
			err = json.Unmarshal([]byte(data), &all)
			for _, news := range all {
				c := p.curves[news.ID]
				if c == nil {
					c = &pageCurve{}
					p.curves[news.ID] = c
				}
				if news.From > len(c.buckets) {
					p.t.Fatalf("buckets from %d on, but the page has %d", news.From, len(c.buckets))
				}
				c.buckets = append(c.buckets[:news.From], news.Buckets...)
				c.count, c.last = news.Count, news.Last
			}
		default:
			p.t.Fatalf("unknown event %q", event)
		}
		if err != nil {
			p.t.Fatalf("%s: %v in %s", event, err, data)
		}
	}
}

func (p *page) untilCount(id int, n int64) {
	p.t.Helper()
	p.until(func() bool { return p.curves[id] != nil && p.curves[id].count >= n })
}

// sees checks that the page has the curve exactly as the board has it.
func (p *page) sees(b *Board, id int) {
	p.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.series[id].curve
	if len(p.curves[id].buckets) != len(c.buckets) {
		p.t.Fatalf("the page has %d buckets of %d", len(p.curves[id].buckets), len(c.buckets))
	}
	for i, bucket := range c.buckets {
		want := string(appendPoints(nil, bucket.points(nil)...))
		if got, _ := json.Marshal(p.curves[id].buckets[i]); string(got) != want {
			p.t.Fatalf("bucket %d is %s on the page, want %s", i, got, want)
		}
	}
}

func serveTest(t *testing.T, b *Board) string {
	server := httptest.NewServer(b.Handler())
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL + "/"
}

func TestPagesGetHistoryAndNews(t *testing.T) {
	var b Board
	url := serveTest(t, &b)
	early := openPage(t, url)
	early.until(func() bool { return len(early.panels) == 1 })
	if n := len(early.panels[0].Series); n != 0 {
		t.Errorf("an empty board has %d series", n)
	}
	for i := range 3000 { // beyond the first doubling of the stride
		b.Draw("loss", float64(i), math.Sin(float64(i)), 1)
	}
	late := openPage(t, url)
	for _, p := range []*page{early, late} {
		p.untilCount(0, 3000)
		p.sees(&b, 0)
	}
	if err := b.SetAxes("", Axes{Title: "T", XLabel: "step", YScale: Log, YLim: [2]float64{0.5, 2}}); err != nil {
		t.Fatal(err)
	}
	b.Draw("acc/val", 1, 0.5, 1)
	for _, p := range []*page{early, late} {
		p.untilCount(1, 1)
		got, _ := json.Marshal(p.panels)
		const want = `[{"name":"","title":"T","xlabel":"step","ylabel":"","xlim":[0,0],"ylim":[0.5,2],"xlog":false,"ylog":true,"series":[{"id":0,"label":"loss","color":0}]},` +
			`{"name":"acc","title":"acc","xlabel":"step","ylabel":"","xlim":[0,0],"ylim":[0,0],"xlog":false,"ylog":false,"series":[{"id":1,"label":"val","color":1}]}]`
		if string(got) != want {
			t.Errorf("panels are %s", got)
		}
	}
	before := late.bytes
	for i := range 10 {
		b.Draw("loss", float64(3000+i), 0, 1)
	}
	late.untilCount(0, 3010)
	late.sees(&b, 0)
	if n := late.bytes - before; n > 2000 {
		t.Errorf("10 new points took %d bytes", n)
	}
}

func TestPagesWhileDrawing(t *testing.T) {
	var b Board
	url := serveTest(t, &b)
	var group sync.WaitGroup
	for g := range 3 {
		group.Go(func() {
			for i := range 6000 {
				b.Draw(fmt.Sprint("s", g), float64(i), float64(i*7919%1000), 1)
				if i%1000 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	pages := []*page{openPage(t, url), openPage(t, url), openPage(t, url)}
	for _, p := range pages {
		group.Go(func() {
			for id := range 3 {
				p.untilCount(id, 6000)
			}
		})
	}
	group.Wait()
	for _, p := range pages {
		for id := range 3 {
			p.sees(&b, id)
		}
	}
}

func TestPageEscapesAndOddNumbers(t *testing.T) {
	var b Board
	n := drawAwkward(&b)
	p := openPage(t, serveTest(t, &b))
	total := func() (sum int64) {
		for _, c := range p.curves {
			sum += c.count
		}
		return sum
	}
	p.until(func() bool { return total() == int64(n) })
	seen := 0
	for _, panel := range p.panels {
		for _, s := range panel.Series {
			if want := b.series[s.ID].label; s.Label != want {
				t.Errorf("label %q, want %q", s.Label, want)
			}
			seen++
		}
	}
	if seen != len(b.series) {
		t.Errorf("%d names, want %d", seen, len(b.series))
	}
	last := p.curves[0].last // the last value is -Inf
	if string(last[1]) != `"-Infinity"` {
		t.Errorf("-Inf travels as %s", last[1])
	}
}

func TestPageShowsProgress(t *testing.T) {
	var b Board
	p := newProgress(nil, Plan{Epochs: 2, Steps: 10}, nil, look{})
	p.Epoch(2)
	p.Add(5)
	p.Set("loss", 3)
	b.Track(p)
	client := openPage(t, serveTest(t, &b))
	client.until(func() bool { return client.state.Fraction == 0.75 && len(client.state.Text) >= 4 })
	text := strings.Join(client.state.Text, "|")
	if !strings.HasPrefix(text, "epoch 2/2| 75%|5/10|") || strings.Contains(text, "loss") {
		t.Errorf("status is %s", text)
	}
	p.Add(5)
	p.Close()
	client.until(func() bool { return client.state.Done && client.state.Fraction == 1 })
}

func TestServe(t *testing.T) {
	var b Board
	url, err := b.Serve(":0")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/$`).MatchString(url) {
		t.Errorf("address %s is not on the loopback interface", url)
	}
	client := openPage(t, url)
	client.until(func() bool { return client.panels != nil })
	b.Draw("s", 1, 2, 5) // incomplete: Close shows it
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	client.until(func() bool { return client.ended })
	if c := client.curves[0]; c == nil || c.count != 1 {
		t.Error("the page was not told of the last point")
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the board is still served after Close")
	}
}

func TestServeTwoBoardsByDefault(t *testing.T) {
	var a, b Board
	defer a.Close()
	defer b.Close()
	first, err := a.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !strings.HasPrefix(first, "http://127.0.0.1:") || !strings.HasPrefix(second, "http://127.0.0.1:") {
		t.Errorf("addresses %s and %s", first, second)
	}
}

func TestServeErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, addr := range []string{l.Addr().String(), "nonsense", "127.0.0.1:99999"} {
		var b Board
		if _, err := b.Serve(addr); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("board: serve on %q: ", addr)) {
			t.Errorf("%s: %v", addr, err)
		} else {
			t.Log(err)
		}
	}
}

func TestServeRefusesOtherNames(t *testing.T) {
	var b Board
	defer b.Close()
	url, err := b.Serve(":0")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"localhost": 200, "localhost:1234": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "a.localhost": 200, "evil.example": 403, "localhost.evil.example:80": 403} {
		request, _ := http.NewRequest("GET", url, nil)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("host %s: status %d, want %d", host, response.StatusCode, want)
		}
	}
}

func TestHandlerFiles(t *testing.T) {
	var b Board
	b.Draw("s", 1, 2, 1)
	server := httptest.NewServer(http.StripPrefix("/run/1", b.Handler()))
	defer server.Close()
	for path, want := range map[string]struct{ kind, has string }{
		"":           {"text/html", "<!doctype html>"},
		"board.js":   {"text/javascript", "EventSource"},
		"surface.js": {"text/javascript", "class Surface"},
		"board.css":  {"text/css", "prefers-color-scheme: dark"},
		"board.svg":  {"image/svg+xml", "<svg "},
		"board.png":  {"image/png", "\x89PNG"},
	} {
		response, err := http.Get(server.URL + "/run/1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), want.kind) || !strings.Contains(string(body), want.has) {
			t.Errorf("%q: status %d, type %s, %v", path, response.StatusCode, response.Header.Get("Content-Type"), err)
		}
		if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%q: policy %q", path, policy)
		}
		if outside := regexp.MustCompile(`(?:https?:)?//[a-z]`).FindAllString(strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", ""), -1); want.kind != "image/png" && len(outside) > 0 {
			t.Errorf("%q asks for something outside: %q", path, outside)
		}
	}
	for path, want := range map[string]int{"nothing": 404, "../serve.go": 404} {
		response, err := http.Get(server.URL + "/run/1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d", path, response.StatusCode)
		}
	}
	response, err := http.Post(server.URL+"/run/1/events", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 405 {
		t.Errorf("POST: status %d", response.StatusCode)
	}
}
