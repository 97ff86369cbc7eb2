//go:build unix

package board

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser drives a headless Chromium through the DevTools protocol. It talks over a pipe (messages end in a zero byte), so
// it needs neither a port nor a WebSocket.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	id      int
	logged  []string // errors that the page reported
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short leaves out the test in a browser")
	}
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("skipped: no Chromium on this machine (on Debian: apt-get install chromium)")
	}
	profile, err := os.MkdirTemp("", "board-chromium")
	if err != nil {
		t.Fatal(err)
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+profile, "TMPDIR="+profile)
	cmd.ExtraFiles = []*os.File{inRead, outWrite} // file descriptors 3 and 4
	stderr, err := os.Create(filepath.Join(profile, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &browser{t: t, to: inWrite, from: bufio.NewReaderSize(outRead, 1<<20)}
	deadline := time.AfterFunc(90*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		b.session = ""
		b.send("Browser.close", nil)
		cmd.Wait()
		deadline.Stop()
		inWrite.Close()
		outRead.Close()
		said, _ := os.ReadFile(stderr.Name())
		stderr.Close()
		for range 20 { // its helpers may still be writing
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if t.Failed() {
			t.Logf("Chromium said: %s", said)
		}
	})

	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	for range 50 {
		b.call("Target.getTargets", nil, &targets)
		for _, target := range targets.TargetInfos {
			if target.Type == "page" && b.session == "" {
				var attached struct{ SessionID string }
				b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
				b.session = attached.SessionID
			}
		}
		if b.session != "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if b.session == "" {
		t.Fatalf("Chromium opened no page: %+v", targets)
	}
	b.call("Page.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	return b
}

func (b *browser) send(method string, params any) error {
	b.id++
	if params == nil {
		params = map[string]any{}
	}
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = b.to.Write(append(text, 0))
	return err
}

// call sends a command and waits for its result. Errors that the page reports meanwhile are kept.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	if err := b.send(method, params); err != nil {
		b.t.Fatalf("%s: Chromium is gone: %v", method, err)
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: Chromium is gone: %v", method, err)
		}
		var reply struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(text[:len(text)-1], &reply); err != nil {
			b.t.Fatal(err)
		}
		if reply.Method == "Runtime.exceptionThrown" || reply.Method == "Log.entryAdded" {
			b.logged = append(b.logged, string(reply.Params))
		}
		if reply.ID != b.id {
			continue
		}
		if reply.Error != nil {
			b.t.Fatalf("%s: %s", method, reply.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(reply.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// eval returns the value of a JavaScript expression as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails.Text)
	}
	return fmt.Sprint(out.Result.Value)
}

// wait waits until the expression has the value.
func (b *browser) wait(expression, want string) {
	b.t.Helper()
	got := ""
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if got = b.eval(expression); got == want {
			return
		}
	}
	b.t.Fatalf("%s stays %q, want %q", expression, got, want)
}

// screenshot returns what the page looks like. With BOARD_SCREENSHOTS set to a folder it is kept there.
func (b *browser) screenshot(name string) []byte {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if dir := os.Getenv("BOARD_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666); err != nil {
			b.t.Fatal(err)
		}
	}
	return data
}

func (b *browser) mouse(kind, x, y string, extra map[string]any) {
	b.t.Helper()
	number := func(expression string) json.Number { return json.Number(b.eval(expression)) }
	params := map[string]any{"type": kind, "x": number(x), "y": number(y)}
	for k, v := range extra {
		params[k] = v
	}
	b.call("Input.dispatchMouseEvent", params, nil)
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": name}}}, nil)
	b.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
}

func TestPageInBrowser(t *testing.T) {
	chrome := startBrowser(t)
	const evil = `<img src=x onerror="window.hacked=1">&"'`
	var board Board
	if err := board.SetAxes("", Axes{Title: "LeNet", XLabel: "epoch", YLabel: "loss"}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(board.Handler())
	defer server.Close()
	defer server.CloseClientConnections() // pages stay connected
	progress := newProgress(nil, Plan{Epochs: 10, Steps: 100}, nil, look{})
	defer progress.Close()
	board.Track(progress)
	progress.Epoch(3)
	progress.Add(50)

	chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 820, "deviceScaleFactor": 1, "mobile": false}, nil)
	chrome.call("Page.navigate", map[string]any{"url": server.URL}, nil)
	chrome.wait(`document.querySelector("#link")?.dataset.state`, "live")
	chrome.wait(`document.querySelectorAll(".legend button").length`, "0")

	// Curves appear.
	draw := func(from, to int) {
		for i := from; i < to; i++ {
			x := float64(i) / 20
			board.Draw("train_loss", x, 2.3/(1+x)+0.04*float64(i*7919%13)/13, 1)
			if i%20 == 0 && i > 0 {
				board.Draw("val_loss", x, 2.3/(1+x)+0.1, 1)
				board.Draw("accuracy/val", x, 0.9-0.5/(1+x), 1)
				board.Draw("accuracy/"+evil, x, 0.92-0.5/(1+x), 1)
			}
		}
	}
	draw(0, 101)
	const count = `document.querySelector("[data-panel=''] .legend button")?.dataset.count`
	chrome.wait(count, "101")
	chrome.wait(`[...document.querySelectorAll("[data-panel=''] .legend .name")].map(e => e.textContent).join()`, "train_loss,val_loss")
	chrome.wait(`document.querySelectorAll(".panel").length`, "2")
	blue := `(() => { const c = document.querySelector("[data-panel=''] canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] < 90 && d[i+2] > 180 && d[i+3] > 200) n++; return n > 300; })()`
	chrome.wait(blue, "true")

	// They go on while the page is open.
	before := chrome.screenshot("light")
	value := `document.querySelector("[data-panel=''] .legend .value").textContent`
	old := chrome.eval(value)
	draw(101, 201)
	progress.Add(25)
	chrome.wait(count, "201")
	chrome.wait(value+` !== `+fmt.Sprintf("%q", old), "true")
	chrome.wait(`document.querySelector("#status").textContent.includes("75/100")`, "true")
	if bytes.Equal(before, chrome.screenshot("light-later")) {
		t.Error("the picture did not change with new points")
	}

	// A name is never markup.
	chrome.wait(`[...document.querySelectorAll("[data-panel='accuracy'] .legend .name")].map(e => e.textContent)[1]`, evil)
	if got := chrome.eval("window.hacked"); got != "undefined" {
		t.Errorf("a series name ran as script: %s", got)
	}

	// The pointer reads values.
	rect := `document.querySelector("[data-panel=''] canvas").getBoundingClientRect()`
	chrome.mouse("mouseMoved", rect+".left + 300", rect+".top + 120", nil)
	chrome.wait(`document.querySelector("[data-panel=''] .tip").hidden`, "false")
	if tip := chrome.eval(`document.querySelector("[data-panel=''] .tip").textContent`); !strings.Contains(tip, "epoch") || !strings.Contains(tip, "train_loss") {
		t.Errorf("tip says %q", tip)
	}
	chrome.screenshot("hover")

	// Dark mode.
	chrome.scheme("dark")
	dark, err := png.Decode(bytes.NewReader(chrome.screenshot("dark")))
	if err != nil {
		t.Fatal(err)
	}
	if r, g, b, _ := dark.At(4, 4).RGBA(); r+g+b > 3*0x4000 {
		t.Errorf("dark mode has a background of %x %x %x", r>>8, g>>8, b>>8)
	}
	chrome.scheme("light")

	// The log switch, zoom, and hiding a curve.
	chrome.eval(`document.querySelector("[data-panel=''] [data-axis=y]").click()`)
	chrome.wait(`document.querySelector("[data-panel=''] [data-axis=y]").getAttribute("aria-pressed")`, "true")
	left := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	chrome.mouse("mousePressed", rect+".left + 200", rect+".top + 100", left)
	chrome.mouse("mouseMoved", rect+".left + 400", rect+".top + 100", left)
	chrome.mouse("mouseReleased", rect+".left + 400", rect+".top + 100", left)
	chrome.wait(`document.querySelector("[data-panel=''] .top button").hidden`, "false")
	chrome.eval(`document.querySelector("[data-panel=''] .legend button").click()`)
	chrome.wait(`document.querySelector("[data-panel=''] .legend button").getAttribute("aria-pressed")`, "false")
	chrome.screenshot("log-zoom-hidden")

	// The page comes back by itself after the connection is lost.
	chrome.eval(`document.querySelector("[data-panel=''] .legend button").click()`)
	server.CloseClientConnections()
	draw(201, 301)
	chrome.wait(count, "301")
	chrome.wait(`document.querySelector("#link").dataset.state`, "live")

	// A narrow page has no sideways scrolling.
	chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": true}, nil)
	chrome.wait(`document.documentElement.scrollWidth <= 390`, "true")
	chrome.screenshot("narrow")

	if err := board.Close(); err != nil {
		t.Fatal(err)
	}
	chrome.wait(`document.querySelector("#link").textContent`, "run ended")
	for _, entry := range chrome.logged {
		if !strings.Contains(entry, "ERR_INCOMPLETE_CHUNKED_ENCODING") && !strings.Contains(entry, "ERR_CONNECTION") { // we cut it
			t.Errorf("the page reported %s", entry)
		}
	}
}

// With many panels only those in sight are drawn; the others are when they come into sight, and their words are up to
// date before.
func TestManyPanelsInBrowser(t *testing.T) {
	chrome := startBrowser(t)
	board := manyBoard(400, 3000)
	server := httptest.NewServer(board.Handler())
	defer server.Close()
	defer server.CloseClientConnections()
	chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 820, "deviceScaleFactor": 1, "mobile": false}, nil)
	chrome.call("Page.navigate", map[string]any{"url": server.URL}, nil)
	chrome.wait(`document.querySelectorAll(".panel").length`, "400")
	const words = `[...document.querySelectorAll(".legend button")].filter(b => b.dataset.count === "%d").length`
	chrome.wait(fmt.Sprintf(words, 3000), "400")
	const pixels = `[...document.querySelectorAll("canvas")].reduce((n, c) => n + (c.width === 300 && c.height === 150 ? 0 : 1), 0)`
	chrome.wait(pixels+" > 1", "true")
	if n := chrome.eval(pixels); len(n) > 2 { // a canvas that was never drawn on has its first size
		t.Errorf("%s canvases were drawn", n)
	}
	chrome.screenshot("many")
	ink := `(() => { const c = document.querySelector("[data-panel='panel 399'] canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i+2] > 150 && d[i] < 120 && d[i+3] > 200) n++; return n > 300; })()`
	if chrome.eval(ink) != "false" {
		t.Error("a canvas out of sight was drawn")
	}
	for i := range 400 {
		board.Draw(fmt.Sprintf("panel %d/loss", i), 3000, 0.5, 1)
	}
	chrome.wait(fmt.Sprintf(words, 3001), "400")
	chrome.eval(`document.querySelector("[data-panel='panel 399']").scrollIntoView()`)
	chrome.wait(ink, "true")
	chrome.screenshot("many-end")
	for _, entry := range chrome.logged {
		if !strings.Contains(entry, "willReadFrequently") { // this test's own reading
			t.Errorf("the page reported %s", entry)
		}
	}
}

// Pages of one, a few and many panels fit a desktop and a phone, in light and dark: nothing scrolls sideways, panels and
// what is in them stay inside, and letters have some size. With BOARD_SCREENSHOTS the pictures can be looked at.
func TestLooksInBrowser(t *testing.T) {
	chrome := startBrowser(t)
	for _, n := range []int{1, 4, 40} {
		board := runBoard(t, n)
		server := httptest.NewServer(board.Handler())
		chrome.call("Page.navigate", map[string]any{"url": server.URL}, nil)
		chrome.wait(`document.querySelectorAll(".panel").length`, fmt.Sprint(n))
		chrome.wait(`document.querySelector("#title").textContent`, "LeNet on digits")
		for _, screen := range []struct {
			name          string
			width, height int
			mobile        bool
		}{{"desktop", 1280, 820, false}, {"phone", 390, 844, true}} {
			chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": screen.width, "height": screen.height, "deviceScaleFactor": 1 + map[bool]int{true: 1}[screen.mobile], "mobile": screen.mobile}, nil)
			chrome.wait(`document.documentElement.scrollWidth <= window.innerWidth`, "true")
			outside := chrome.eval(`[...document.querySelectorAll(".panel, .panel h2, .panel canvas, .panel button, header > *, .progress")].filter(e => {
				const r = e.getBoundingClientRect(); return r.width > 0 && (r.left < -0.5 || r.right > window.innerWidth + 0.5) }).length`)
			if outside != "0" {
				t.Errorf("%d panels on a %s: %s things are outside", n, screen.name, outside)
			}
			for _, scheme := range []string{"light", "dark"} {
				chrome.scheme(scheme)
				chrome.eval("new Promise(done => setTimeout(done, 150))")
				chrome.screenshot(fmt.Sprintf("looks-%d-%s-%s", n, screen.name, scheme))
			}
		}
		chrome.call("Page.navigate", map[string]any{"url": "about:blank"}, nil)
		server.CloseClientConnections()
		server.Close()
	}
	for _, entry := range chrome.logged {
		if !strings.Contains(entry, "ERR_INCOMPLETE_CHUNKED_ENCODING") && !strings.Contains(entry, "ERR_CONNECTION") { // we cut it
			t.Errorf("the page reported %s", entry)
		}
	}
}

// runBoard is the board of a run that is under way, with n panels.
func runBoard(t *testing.T, n int) *Board {
	b := &Board{}
	if err := b.SetAxes("", Axes{Title: "LeNet on digits", XLabel: "epoch"}); err != nil {
		t.Fatal(err)
	}
	names := []string{"loss", "accuracy", "throughput", "memory"}
	units := []string{"", "", "examples/s", "peak MiB"}
	for i := range n {
		name, unit := fmt.Sprintf("layer %d, norm of the gradient", i-3), ""
		if i < len(names) {
			name, unit = names[i], units[i]
		}
		if err := b.SetAxes(name, Axes{YLabel: unit, YFromZero: unit != "", XLim: [2]float64{0, 20}}); err != nil {
			t.Fatal(err)
		}
		for k := range 130 {
			x := float64(k+1) / 10
			wave := 0.05 * float64(k*7919%13) / 13
			switch i {
			case 0:
				b.Draw("loss/training", x, 2.3/(1+x)+wave, 1)
			case 1:
				b.Draw("accuracy/training", x, 0.98-0.7/(1+x)+wave/5, 1)
			case 2:
				b.Draw("throughput/training", x, 41234+9000*wave, 1)
			case 3:
				b.Draw("memory/gpu:0", x, 812.5, 1)
				b.Draw("memory/gpu:1", x, 640, 1)
			default:
				b.Draw(name+"/training", x, 1/(x+float64(i))+wave/10, 1)
			}
			if i < 2 && (k+1)%10 == 0 {
				b.Draw(name+"/validation", x, map[int]float64{0: 2.4/(1+x) + 0.1, 1: 0.95 - 0.6/(1+x)}[i], 1)
			}
		}
	}
	p := newProgress(nil, Plan{Epochs: 20, Steps: 100}, nil, look{})
	t.Cleanup(func() { p.Close() })
	b.Track(p)
	p.Epoch(14)
	p.Add(30)
	return b
}

// The page shows a timeline below the curves: spans that can be read and zoomed, in light and dark, on a phone too.
func TestTimelineInBrowser(t *testing.T) {
	chrome := startBrowser(t)
	board := runBoard(t, 2)
	board.SetTimeline("A step of lenet", stepSpans(hostile))
	server := httptest.NewServer(board.Handler())
	defer server.Close()
	defer server.CloseClientConnections()
	chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 980, "deviceScaleFactor": 1, "mobile": false}, nil)
	chrome.call("Page.navigate", map[string]any{"url": server.URL}, nil)
	chrome.wait(`document.querySelector(".timeline")?.dataset.spans`, "9")
	chrome.wait(`document.querySelector(".timeline h2").textContent`, "A step of lenet")
	chrome.wait(`[...document.querySelectorAll(".timeline .kinds li")].map(e => e.textContent).join()`, "other,product,elementwise,reduction, norm,update,program")
	rect := `document.querySelector(".timeline canvas").getBoundingClientRect()`
	chrome.eval(`document.querySelector(".timeline").scrollIntoView({block: "end"})`)
	chrome.mouse("mouseMoved", rect+".left + "+rect+".width / 2", rect+".top + 12", nil)
	chrome.wait(`document.querySelector(".timeline .tip").hidden`, "false")
	if tip := chrome.eval(`document.querySelector(".timeline .tip").textContent`); !strings.Contains(tip, "add+exp+mul") || !strings.Contains(tip, "80 µs") || !strings.Contains(tip, "main.go:33") {
		t.Errorf("tip says %q", tip)
	}
	chrome.screenshot("timeline-light")
	left := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	chrome.mouse("mousePressed", rect+".left + 300", rect+".top + 12", left)
	chrome.mouse("mouseMoved", rect+".left + 600", rect+".top + 12", left)
	chrome.mouse("mouseReleased", rect+".left + 600", rect+".top + 12", left)
	chrome.wait(`document.querySelector(".timeline .top button").hidden`, "false")
	chrome.scheme("dark")
	chrome.screenshot("timeline-zoomed-dark")
	chrome.eval(`document.querySelector(".timeline .top button").click()`)
	chrome.wait(`document.querySelector(".timeline .top button").hidden`, "true")
	chrome.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}, nil)
	chrome.wait(`document.documentElement.scrollWidth <= 390`, "true")
	chrome.eval(`document.querySelector(".timeline").scrollIntoView({block: "end"})`)
	chrome.eval("new Promise(done => setTimeout(done, 150))")
	chrome.screenshot("timeline-phone-dark")
	if got := chrome.eval("window.hacked"); got != "undefined" {
		t.Errorf("a name ran as script: %s", got)
	}
	board.SetTimeline("", nil)
	chrome.wait(`document.querySelector(".timeline") === null`, "true")
	for _, entry := range chrome.logged {
		t.Errorf("the page reported %s", entry)
	}
}
