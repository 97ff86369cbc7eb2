package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/locusml/locus/internal/gate"
)

const (
	logPause   = 100 * time.Millisecond // between writes: a reader is never further behind than this
	maxPending = 64 << 20               // bytes that wait for a disk that does not take them
	csvHeader  = "time,series,x,y\n"
	timeFormat = "2006-01-02T15:04:05.000Z07:00"
)

// LogCSV appends every point from now on to a CSV file with the columns time, series, x and y. The file and its folder are
// made if need be; if the file is an earlier log, its rows stay. It grows by whole lines, several times per second, and can
// be read at any time. A line that a killed program left unfinished is removed.
func (b *Board) LogCSV(path string) error {
	gate.Receiver("board.Board.LogCSV", b != nil, "use new(board.Board)")
	f, empty, err := openLines(path, csvHeader)
	if err != nil {
		return err
	}
	var start []byte
	if empty {
		start = []byte(csvHeader)
	}
	return b.startLog(path, f, start, appendCSV)
}

// LogJSON appends every point from now on to a file of JSON lines such as
//
//	{"time":"2026-01-02T15:04:05.000Z","series":"loss","x":3,"y":0.25}
//
// Values that JSON has no number for are the strings "NaN", "Infinity" and "-Infinity". For the rest it is as
// [Board.LogCSV].
func (b *Board) LogJSON(path string) error {
	gate.Receiver("board.Board.LogJSON", b != nil, "use new(board.Board)")
	f, _, err := openLines(path, `{"time":`)
	if err != nil {
		return err
	}
	return b.startLog(path, f, nil, appendJSON)
}

func appendCSV(dst []byte, points []Point) []byte {
	for _, p := range points {
		dst = p.Time.UTC().AppendFormat(dst, timeFormat)
		dst = append(dst, ',')
		dst = appendCSVField(dst, p.Series)
		dst = append(dst, ',')
		dst = strconv.AppendFloat(dst, p.X, 'g', -1, 64)
		dst = append(dst, ',')
		dst = strconv.AppendFloat(dst, p.Y, 'g', -1, 64)
		dst = append(dst, '\n')
	}
	return dst
}

func appendCSVField(dst []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, `",`) && strings.TrimSpace(s) == s {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

func appendJSON(dst []byte, points []Point) []byte {
	for _, p := range points {
		dst = append(dst, `{"time":"`...)
		dst = p.Time.UTC().AppendFormat(dst, timeFormat)
		dst = append(dst, `","series":`...)
		dst = appendJSONString(dst, p.Series)
		dst = append(dst, `,"x":`...)
		dst = appendJSONNumber(dst, p.X, -1)
		dst = append(dst, `,"y":`...)
		dst = appendJSONNumber(dst, p.Y, -1)
		dst = append(dst, "}\n"...)
	}
	return dst
}

func appendJSONString(dst []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return append(dst, quoted...)
}

// appendJSONNumber writes v with the given number of significant digits, or as many as it takes if -1.
func appendJSONNumber(dst []byte, v float64, digits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', digits, 64)
}

// openLines opens a file of lines for appending. A file that has contents must begin with the prefix, or it is someone
// else's; an unfinished last line is cut off.
func openLines(path, prefix string) (f *os.File, empty bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("board: log %s: %w", path, unwrapPath(err))
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, false, err
	}
	size, err := repairLines(path, prefix)
	if err != nil {
		return nil, false, err
	}
	f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	return f, size == 0, err
}

// repairLines returns the size of the file after cutting an unfinished last line.
func repairLines(path, prefix string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, errors.New("is a folder: give the name of a file")
	}
	if !info.Mode().IsRegular() || info.Size() == 0 { // a pipe or a device has nothing to repair
		return 0, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()

	size := info.Size()
	head := make([]byte, min(size, int64(len(prefix))))
	if _, err := f.ReadAt(head, 0); err != nil {
		return 0, err
	}
	if !strings.HasPrefix(prefix, string(head)) {
		return 0, fmt.Errorf("exists and is not such a log (it begins with %q, not %q): choose another name or remove it", head, prefix)
	}
	end := size
	buf := make([]byte, 4096)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end += int64(i) + 1 - n
			break
		}
		end -= n
	}
	if end < size {
		return end, f.Truncate(end)
	}
	return end, nil
}

// unwrapPath drops the path from an error of package os: ours names it once, as the caller gave it.
func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// logFile writes points to a file as they come, without losing any while the disk is full for a time.
type logFile struct {
	path   string
	encode func([]byte, []Point) []byte
	sub    *subscriber
	stop   func() // ends the subscription

	mu      sync.Mutex
	file    io.WriteCloser
	pending []byte // encoded, not yet written
	dropped int64  // points that found pending full
	err     error  // of the last write
}

// startLog writes start and then all points to come to f, which it owns.
func (b *Board) startLog(path string, f io.WriteCloser, start []byte, encode func([]byte, []Point) []byte) error {
	l := &logFile{path: path, file: f, encode: encode, pending: start}
	l.flush()
	if l.err != nil {
		f.Close()
		return l.Err()
	}
	l.sub, l.stop = b.subscribe(logPause, l.write)
	b.mu.Lock()
	b.logs = append(b.logs, l)
	b.mu.Unlock()
	return nil
}

func (l *logFile) write(points []Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) < maxPending {
		l.pending = l.encode(l.pending, points)
	} else {
		l.dropped += int64(len(points))
	}
	l.flush()
}

// flush writes what is pending. After a partial write the next one goes on where it ended, so lines stay whole.
func (l *logFile) flush() {
	if len(l.pending) == 0 {
		return
	}
	n, err := l.file.Write(l.pending)
	l.pending = l.pending[:copy(l.pending, l.pending[n:])]
	l.err = err
}

// Err says why the log is incomplete now, or nil.
func (l *logFile) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := l.dropped
	if l.sub != nil {
		dropped += l.sub.lost.Load()
	}
	switch {
	case l.err != nil && dropped > 0:
		return fmt.Errorf("board: log %s: %w (%d points lost)", l.path, unwrapPath(l.err), dropped)
	case l.err != nil:
		return fmt.Errorf("board: log %s: %w", l.path, unwrapPath(l.err))
	case dropped > 0:
		return fmt.Errorf("board: log %s: %d points lost because the disk did not keep up: draw fewer (everyN) or log to a faster one", l.path, dropped)
	}
	return nil
}

func (l *logFile) close() error {
	l.stop()
	l.mu.Lock()
	l.flush()
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	return l.Err()
}
