package optest

import (
	"os"
	"strings"
	"testing"
)

// TestPrecisionPage fails when the page on mixed precision is not what the table says.
func TestPrecisionPage(t *testing.T) {
	const path = "../../docs/precision.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(data), PrecisionBegin)
	got, tail, ends := strings.Cut(rest, PrecisionEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the lines that its lists lie between", path)
	}
	want := "\n" + PrecisionLists() + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(head+PrecisionBegin+want+PrecisionEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Error("docs/precision.md is out of date: go test ./internal/optest -run TestPrecisionPage -update")
	}
}
