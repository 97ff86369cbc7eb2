package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// neonSamples has each instruction of neonForms with registers whose numbers tell
// the places apart: the words we make and how they are written.
func neonSamples() (words []uint32, texts []string) {
	var keys []string
	for k := range neonForms {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		f := neonForms[k]
		for i, r := range [][]int{{1, 2, 4}, {31, 14, 21}} {
			shift := 0
			if f.shift > 0 {
				shift = []int{1, f.shift - 1}[i]
			}
			w, t := f.encode(r[:len(f.regs)], shift)
			words, texts = append(words, w), append(texts, t)
		}
	}
	return words, texts
}

var neonFiles = []string{"../gemm/kernels_neon_arm64.s", "../vec/vec_neon_arm64.s", "../gemm/thin_neon_arm64.s", "../gemm/winograd_neon_arm64.s", "../depth/depth_neon_arm64.s"}

const neonWords = "testdata/neon_words.txt"

// The file has what LLVM's assembler makes of each instruction (14.0, the test below):
// a word that we make otherwise, or that is not in it, is an error.
func TestNEONWords(t *testing.T) {
	b, err := os.ReadFile(neonWords)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(b)) {
		word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[text] = word
	}
	words, texts := neonSamples()
	for i, w := range words {
		if got := fmt.Sprintf("%08x", w); want[texts[i]] != got {
			t.Errorf("%s is %s, want %q", texts[i], got, want[texts[i]])
		}
	}
	if len(want) != len(words) {
		t.Errorf("%s has %d instructions, of which %d are in use", neonWords, len(want), len(words))
	}
}

// assemble asks LLVM's assembler for words.
func assemble(t *testing.T, texts []string) []uint32 {
	t.Helper()
	llvm, err := exec.LookPath("llvm-mc")
	if err != nil {
		t.Skip("there is no llvm-mc to compare with (Debian's package llvm); the recorded words were compared")
	}
	cmd := exec.Command(llvm, "-arch=aarch64", "-mattr=+neon", "-show-encoding")
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var words []uint32
	for _, m := range regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`).FindAllSubmatch(out, -1) {
		w, err := strconv.ParseUint(string(bytes.Join([][]byte{m[4], m[3], m[2], m[1]}, nil)), 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, uint32(w))
	}
	if len(words) != len(texts) {
		t.Fatalf("%d words for %d instructions: %s", len(words), len(texts), out)
	}
	return words
}

// The samples, and every word of the files we write, are what LLVM makes of the text beside
// it. With LOCUS_RECORD=1 the samples are recorded.
func TestNEONWordsAreLLVMs(t *testing.T) {
	words, texts := neonSamples()
	got := assemble(t, texts)
	if os.Getenv("LOCUS_RECORD") != "" {
		var b bytes.Buffer
		for i, w := range got {
			fmt.Fprintf(&b, "%08x %s\n", w, texts[i])
		}
		if err := os.WriteFile(neonWords, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var more []string
	for _, file := range neonFiles[1:] { // the first is older and has no text
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`WORD \$0x(\w{8}) // (.*)`).FindAllSubmatch(b, -1)
		for _, m := range found {
			w, err := strconv.ParseUint(string(m[1]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			words, more = append(words, uint32(w)), append(more, string(m[2]))
		}
		if all := bytes.Count(b, []byte("WORD")); len(found) != all || all == 0 {
			t.Errorf("%s: %d of %d words have a text", file, len(found), all)
		}
	}
	got = append(got, assemble(t, more)...)
	texts = append(texts, more...)
	for i, w := range words {
		if w != got[i] {
			t.Errorf("%s is %08x, LLVM's is %08x", texts[i], w, got[i])
		}
	}
}

// Go keeps R18 for the operating system, R26 and R27 for its linker, R28 for its
// goroutine, R29 and R30 for frames; the constants' registers are ours alone.
func TestNEONUsesNoReservedRegisters(t *testing.T) {
	for _, file := range neonFiles {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`\b[RWwx](1[6-9]|2\d|30)\b`).FindAll(b, -1); len(m) > 0 {
			t.Errorf("%s uses %s", file, m)
		}
	}
}
