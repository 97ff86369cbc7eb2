package board

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// maxLine bounds a line of a log that is read: names may be long, but not this long.
const maxLine = 1 << 20

// Load draws the points of a log that [Board.LogCSV] or [Board.LogJSON] has written, or is writing. With a run's name the
// curves of several runs can be compared on one board: "loss/train" of the run "a" is the curve "a train" of the panel
// "loss", and "loss" is the curve "a" of that panel. Without one the series keep their names.
//
// A line that is not finished yet is left out. Any other line that is not a point is an error that says where it is;
// the points before it have been drawn.
func (b *Board) Load(path, run string) error {
	gate.Receiver("board.Board.Load", b != nil, "use new(board.Board)")
	f, err := disk.Open(path)
	if err != nil {
		return fmt.Errorf("board: load %s: %w", path, unwrapPath(err))
	}
	defer f.Close()
	parse := parseCSV
	lines := bufio.NewReaderSize(f, 1<<16)
	switch head, _ := lines.Peek(len(csvHeader)); {
	case bytes.HasPrefix(head, []byte(`{"time":`)):
		parse = parseJSON
	case string(head) == csvHeader:
		if _, err := lines.Discard(len(csvHeader)); err != nil {
			return fmt.Errorf("board: load %s: %w", path, err)
		}
	case len(head) == 0:
		return nil // begun, and without points so far
	default:
		return fmt.Errorf("board: load %s: not a log of a board: it begins with %.20q", path, head)
	}
	names := map[string]string{} // of the log to the board's
	for n := 1; ; n++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("board: load %s: %w", path, unwrapPath(err))
		}
		p, err := parse(line)
		if err != nil {
			return fmt.Errorf("board: load %s: point %d: %w", path, n, err)
		}
		name, ok := names[p.Series]
		if !ok {
			name = ofRun(p.Series, run)
			names[p.Series] = name
		}
		b.Draw(name, p.X, p.Y, 1)
	}
}

// readLine returns a line without its end; io.EOF at the end, also where the last line has no end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && line == nil {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case len(line) > maxLine:
			return nil, errors.New("a line is too long to be a point")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// ofRun is the name of a run's series among those of other runs.
func ofRun(series, run string) string {
	run = strings.ReplaceAll(run, "/", " ")
	if run == "" {
		return series
	}
	if panel, label, ok := strings.Cut(series, "/"); ok && panel != "" && label != "" {
		return panel + "/" + run + " " + label
	}
	return strings.Trim(series, "/") + "/" + run
}

func parseCSV(line []byte) (p Point, err error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.FieldsPerRecord = 4
	fields, err := r.Read()
	if err != nil {
		return p, errors.New("not the four values time, series, x and y")
	}
	p.Series = fields[1]
	var errX, errY error
	p.X, errX = strconv.ParseFloat(fields[2], 64)
	p.Y, errY = strconv.ParseFloat(fields[3], 64)
	return p, errors.Join(errX, errY)
}

func parseJSON(line []byte) (p Point, err error) {
	var raw struct {
		Series string
		X, Y   json.RawMessage
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return p, err
	}
	number := func(text json.RawMessage) float64 {
		v, e := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
		err = errors.Join(err, e)
		return v
	}
	p.Series, p.X, p.Y = raw.Series, number(raw.X), number(raw.Y)
	return p, err
}
