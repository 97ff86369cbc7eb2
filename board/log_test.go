package board

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var awkwardNames = []string{
	"loss", "train/loss", "", " padded ", `say "hi"`, "a,b", "a;b", "tab\tin", "two\nlines", "cr\r\nlf", "\x00nul", "\xff\xfe", "=1+1",
	"名前", "e\u0301", "\u2028", "</script><script>alert(1)</script>", `\u003c`, "'", "{}", "#", "null",
}

var awkwardValues = []float64{0, math.Copysign(0, -1), 1, -2.5, 0.1, 1e-300, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}

// drawAwkward draws every name with every value and returns how many points that makes.
func drawAwkward(b *Board) int {
	for _, name := range awkwardNames {
		for i, v := range awkwardValues {
			b.Draw(name, float64(i), v, 1)
		}
	}
	return len(awkwardNames) * len(awkwardValues)
}

func sameNumber(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// logged returns the file that a log of n awkward points has written.
func logged(t *testing.T, log func(b *Board, path string) error, path string) (text string, n int) {
	t.Helper()
	var b Board
	if err := log(&b, path); err != nil {
		t.Fatal(err)
	}
	n = drawAwkward(&b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(file), n
}

func TestLogCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new folder", "run.csv")
	text, n := logged(t, (*Board).LogCSV, path)
	if lines := strings.Count(text, "\n"); lines != n+1 {
		t.Errorf("%d lines, want one for the header and each of %d points", lines, n)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows[1:] {
		name, value := awkwardNames[i/len(awkwardValues)], awkwardValues[i%len(awkwardValues)]
		y, err := strconv.ParseFloat(row[3], 64)
		if err != nil || row[1] != cleanName(name) || !sameNumber(y, value) || row[2] != strconv.Itoa(i%len(awkwardValues)) {
			t.Errorf("row %d is %q, want %q and %v", i, row, name, value)
		}
		if _, err := time.Parse(time.RFC3339, row[0]); err != nil {
			t.Error(err)
		}
	}
}

func TestLogJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	text, n := logged(t, (*Board).LogJSON, path)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != n {
		t.Fatalf("%d lines, want %d", len(lines), n)
	}
	for i, line := range lines {
		name, value := awkwardNames[i/len(awkwardValues)], awkwardValues[i%len(awkwardValues)]
		var row struct {
			Time   time.Time
			Series string
			X      float64
			Y      any
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var y float64
		switch v := row.Y.(type) {
		case float64:
			y = v
		case string:
			y = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[v]
		}
		if row.Series != cleanName(name) || !sameNumber(y, value) || row.Time.IsZero() {
			t.Errorf("line %d is %s, want %q and %v", i, line, name, value)
		}
	}
}

func TestLogsCanBeReadWhileWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.csv")
	var b Board
	if err := b.LogCSV(path); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Draw("s", 1, 2, 1)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(text), ",s,1,2\n") {
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("after 10 s the file has %q", text)
		}
	}
}

func TestLogsAppend(t *testing.T) {
	const row = "2026-01-02T15:04:05.000Z,old,1,2\n"
	const line = `{"time":"2026-01-02T15:04:05.000Z","series":"old","x":1,"y":2}` + "\n"
	tests := []struct {
		name     string
		csv      bool
		has      string
		keeps    string // what the file begins with afterwards
		failWith string
	}{
		{"csv: empty", true, "", csvHeader, ""},
		{"csv: header only", true, csvHeader, csvHeader, ""},
		{"csv: rows", true, csvHeader + row, csvHeader + row, ""},
		{"csv: torn row", true, csvHeader + row + "2026-01-02T15", csvHeader + row, ""},
		{"csv: torn header", true, csvHeader[:5], csvHeader, ""},
		{"csv: long torn row", true, csvHeader + row + strings.Repeat("x", 10_000), csvHeader + row, ""},
		{"csv: another file", true, "name,age\nBob,3\n", "", "is not such a log"},
		{"csv: notes", true, "t", csvHeader, ""}, // can only be a torn header
		{"json: empty", false, "", "", ""},
		{"json: lines", false, line, line, ""},
		{"json: torn", false, line + line[:20], line, ""},
		{"json: another file", false, "[1, 2]", "", "is not such a log"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.has), 0o666); err != nil {
				t.Fatal(err)
			}
			var b Board
			var err error
			if test.csv {
				err = b.LogCSV(path)
			} else {
				err = b.LogJSON(path)
			}
			if test.failWith != "" {
				if err == nil || !strings.Contains(err.Error(), test.failWith) {
					t.Errorf("error %v, want %q", err, test.failWith)
				}
				if text, _ := os.ReadFile(path); string(text) != test.has {
					t.Errorf("the file was changed to %q", text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b.Draw("new", 3, 4, 1)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(string(text), test.keeps)
			if !ok || strings.Count(rest, "\n") != 1 || !strings.Contains(rest, "new") {
				t.Errorf("file is %q", text)
			}
		})
	}
}

func TestLogErrorsAreClear(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var b Board
	under := filepath.Join(file, "run.csv")
	for name, err := range map[string]error{
		"csv in a file":         b.LogCSV(under),
		"json in a file":        b.LogJSON(under),
		"events in a file":      b.LogTensorBoard(under, 1),
		"save in a file":        b.Save(filepath.Join(file, "a.svg")),
		"csv on a folder":       b.LogCSV(dir),
		"save without format":   b.Save(filepath.Join(dir, "picture")),
		"save as another":       b.Save(filepath.Join(dir, "picture.gif")),
		"steps of nothing":      b.LogTensorBoard(dir, 0),
		"steps not a number":    b.LogTensorBoard(dir, math.NaN()),
		"steps without an end":  b.LogTensorBoard(dir, math.Inf(1)),
		"save over a directory": func() error { os.Mkdir(filepath.Join(dir, "d.svg"), 0o777); return b.Save(filepath.Join(dir, "d.svg")) }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.HasPrefix(err.Error(), "board: ") || strings.Count(err.Error(), file) > 1 {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("logs that never started fail at Close: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func TestFullDevice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: /dev/full is Linux's")
	}
	var b Board
	err := b.LogCSV("/dev/full")
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("got %v", err)
	}
}

// tightDisk takes so many bytes and then is full.
type tightDisk struct {
	strings.Builder
	room   int
	closed bool
}

var errFull = errors.New("no space left on device")

func (d *tightDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Builder.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *tightDisk) Close() error { d.closed = true; return nil }

var _ io.WriteCloser = (*tightDisk)(nil)

func TestDiskFullForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		disk := &tightDisk{room: 60} // the header and part of a row
		if err := b.startLog("run.csv", disk, []byte(csvHeader), appendCSV); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			b.Draw("s", float64(i), 0, 1)
			time.Sleep(time.Second)
		}
		if err := b.Err(); !errors.Is(err, errFull) || err.Error() != "board: log run.csv: no space left on device" {
			t.Errorf("while full: %v", err)
		}
		synctest.Wait()
		disk.room = 1 << 20
		b.Draw("s", 5, 0, 1)
		time.Sleep(time.Second)
		if err := b.Err(); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		rows, err := csv.NewReader(strings.NewReader(disk.String())).ReadAll()
		if err != nil || len(rows) != 7 || !disk.closed {
			t.Errorf("%d rows (%v), want a header and 6", len(rows), err)
		}
	})
}

func TestDiskFullForGood(t *testing.T) {
	var b Board
	disk := &tightDisk{room: len(csvHeader)}
	if err := b.startLog("run.csv", disk, []byte(csvHeader), appendCSV); err != nil {
		t.Fatal(err)
	}
	b.Draw("s", 1, 0, 1)
	if err := b.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close says %v", err)
	}
	if disk.String() != csvHeader || !disk.closed {
		t.Errorf("file is %q", disk.String())
	}
}

func FuzzLogNames(f *testing.F) {
	for _, name := range awkwardNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var b Board
		b.Draw(name, 1, 2, 1)
		shown := b.series[0].name
		point := []Point{{shown, 1, 2, time.Unix(0, 0)}}
		rows, err := csv.NewReader(strings.NewReader(string(appendCSV(nil, point)))).ReadAll()
		if err != nil || len(rows) != 1 || rows[0][1] != shown {
			t.Errorf("CSV of %q: %q, %v", shown, rows, err)
		}
		var row struct{ Series string }
		line := appendJSON(nil, point)
		if err := json.Unmarshal(line, &row); err != nil || row.Series != shown || strings.Count(string(line), "\n") != 1 {
			t.Errorf("JSON of %q: %s, %v", shown, line, err)
		}
	})
}
