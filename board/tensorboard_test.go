package board

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// readRecords takes a TFRecord file apart and checks its checksums.
func readRecords(t *testing.T, file []byte) [][]byte {
	t.Helper()
	var records [][]byte
	for len(file) > 0 {
		if len(file) < 16 {
			t.Fatalf("%d bytes are left over", len(file))
		}
		n := binary.LittleEndian.Uint64(file)
		if maskedCRC(file[:8]) != binary.LittleEndian.Uint32(file[8:]) || n > uint64(len(file)-16) {
			t.Fatalf("bad length %d", n)
		}
		data := file[12 : 12+n]
		if maskedCRC(data) != binary.LittleEndian.Uint32(file[12+n:]) {
			t.Fatal("bad checksum")
		}
		records = append(records, data)
		file = file[16+n:]
	}
	return records
}

// readFields takes a protobuf message apart: numbers as uint64, strings and messages as []byte.
func readFields(t *testing.T, message []byte) map[uint64]any {
	t.Helper()
	fields := map[uint64]any{}
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			t.Fatal("bad tag")
		}
		message = message[n:]
		switch tag & 7 {
		case wireVarint:
			v, n := binary.Uvarint(message)
			fields[tag>>3], message = v, message[n:]
		case wireFixed64:
			fields[tag>>3], message = binary.LittleEndian.Uint64(message), message[8:]
		case wireFixed32:
			fields[tag>>3], message = uint64(binary.LittleEndian.Uint32(message)), message[4:]
		case wireBytes:
			size, n := binary.Uvarint(message)
			fields[tag>>3], message = message[n:n+int(size)], message[n+int(size):]
		default:
			t.Fatalf("wire type %d", tag&7)
		}
	}
	return fields
}

func TestTensorBoardFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var b Board
	if err := b.LogTensorBoard(dir, 100); err != nil {
		t.Fatal(err)
	}
	b.Draw("loss/train", 0.25, 1.5, 1)
	b.Draw("名", 2, math.NaN(), 1)
	b.Draw("loss/train", -1, math.Inf(1), 1)
	b.Draw("loss/train", math.Inf(1), 0, 1) // has no step
	b.Draw("loss/train", math.NaN(), 0, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files %v, %v", names, err)
	}
	file, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	records := readRecords(t, file)
	if version := readFields(t, records[0])[3]; string(version.([]byte)) != "brain.Event:2" {
		t.Errorf("version %s", version)
	}
	var got []string
	for _, r := range records[1:] {
		event := readFields(t, r)
		value := readFields(t, readFields(t, event[5].([]byte))[1].([]byte))
		wall := math.Float64frombits(event[1].(uint64))
		if now := float64(time.Now().Unix()); wall < now-60 || wall > now+60 {
			t.Errorf("time %v", wall)
		}
		got = append(got, strings.Join([]string{string(value[1].([]byte)),
			fmt.Sprint(int64(event[2].(uint64))), fmt.Sprint(math.Float32frombits(uint32(value[2].(uint64))))}, " "))
	}
	if want := []string{"loss/train 25 1.5", "名 200 NaN", "loss/train -100 +Inf"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// These bytes were read back with TensorBoard's own EventAccumulator: tag "loss", step 300, value 0.5, wall time 1700000000.25.
func TestTensorBoardBytes(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_250_000)
	got := appendRecord(nil, versionEvent(at))
	got = appendRecord(got, scalarEvent(Point{"loss", 3, 0.5, at}, 300))
	want, err := hex.DecodeString(goldenEvents)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x", got)
	}
}

const goldenEvents = "1800000000000000a37f4b22" + "0900001040fc54d9411a0d627261696e2e4576656e743a32" + "338d2fe9" +
	"1b000000000000001a0d9e13" + "0900001040fc54d94110ac022a0d0a0b0a046c6f7373150000003f" + "77f990a0"

func TestTwoEventFilesDoNotMix(t *testing.T) {
	dir := t.TempDir()
	var a, b Board
	for _, board := range []*Board{&a, &b} {
		if err := board.LogTensorBoard(dir, 1); err != nil {
			t.Fatal(err)
		}
		defer board.Close()
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files, want 2", len(files))
	}
}
