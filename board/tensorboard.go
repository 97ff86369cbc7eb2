package board

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/locusml/locus/internal/gate"
)

// LogTensorBoard writes every point from now on to a new event file in dir, for `tensorboard --logdir dir`.
//
// TensorBoard counts whole steps: the step of a point is its x times stepsPerX, rounded. Give 1 if x counts steps, or the
// number of batches in an epoch if x counts epochs. Points whose x is not finite are left out.
func (b *Board) LogTensorBoard(dir string, stepsPerX float64) error {
	gate.Receiver("board.Board.LogTensorBoard", b != nil, "use new(board.Board)")
	if !(stepsPerX > 0) || math.IsInf(stepsPerX, 0) {
		return fmt.Errorf("board: stepsPerX is %v: give 1 if x counts steps, or the number of steps in an epoch if x counts epochs", stepsPerX)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("board: log %s: %w", dir, unwrapPath(err))
	}
	now := time.Now()
	path := filepath.Join(dir, eventFileName(now))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("board: log %s: %w", path, unwrapPath(err))
	}
	return b.startLog(path, f, appendRecord(nil, versionEvent(now)), func(dst []byte, points []Point) []byte {
		for _, p := range points {
			if step := math.Round(p.X * stepsPerX); math.Abs(step) < 1<<62 { // false for NaN
				dst = appendRecord(dst, scalarEvent(p, int64(step)))
			}
		}
		return dst
	})
}

var eventFiles atomic.Int64 // tells apart the files of one process

// eventFileName follows the pattern by which TensorBoard finds event files and orders those of one run.
func eventFileName(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", now.Unix(), filepath.Base(host), os.Getpid(), eventFiles.Add(1))
}

// The two messages of TensorFlow's event.proto and summary.proto that scalars need, by field number:
//
//	Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
//	Summary { repeated Value value = 1; }   Value { string tag = 1; float simple_value = 2; }
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func tag(field, wire uint64) uint64 { return field<<3 | wire }

func appendDouble(dst []byte, field uint64, v float64) []byte {
	dst = binary.AppendUvarint(dst, tag(field, wireFixed64))
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

func appendBytes[T ~string | ~[]byte](dst []byte, field uint64, v T) []byte {
	dst = binary.AppendUvarint(dst, tag(field, wireBytes))
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

func wallTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func versionEvent(t time.Time) []byte {
	return appendBytes(appendDouble(nil, 1, wallTime(t)), 3, "brain.Event:2")
}

func scalarEvent(p Point, step int64) []byte {
	value := appendBytes(nil, 1, p.Series)
	value = binary.AppendUvarint(value, tag(2, wireFixed32))
	value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(p.Y)))

	event := appendDouble(nil, 1, wallTime(p.Time))
	event = binary.AppendUvarint(event, tag(2, wireVarint))
	event = binary.AppendUvarint(event, uint64(step))
	return appendBytes(event, 5, appendBytes(nil, 1, value))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is the checksum of a record: rotated and offset, because a checksum of data that holds checksums is weak.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord frames data as a TFRecord: length, its checksum, data, its checksum.
func appendRecord(dst, data []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	dst = append(dst, length...)
	dst = binary.LittleEndian.AppendUint32(dst, maskedCRC(length))
	dst = append(dst, data...)
	return binary.LittleEndian.AppendUint32(dst, maskedCRC(data))
}
