package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestSimplifyText(t *testing.T) {
	for text, want := range map[string]string{
		"The Time Machine, by H. G. Wells [1898]\n": "the time machine by h g wells",
		"  don't  ":  "don t",
		"Über-Größe": "über größe",
		"123":        "",
		"":           "",
	} {
		if got := SimplifyText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Chars("aß c"); !slices.Equal(got, []string{"a", "ß", " ", "c"}) {
		t.Errorf("%q", got)
	}
	if got := Words(" a  bc\nd"); !slices.Equal(got, []string{"a", "bc", "d"}) {
		t.Errorf("%q", got)
	}
}

func TestVocab(t *testing.T) {
	v := NewVocab(Words("b a c a b a d"), 2, "<pad>", "<bos>")
	if want := []string{"<unk>", "<pad>", "<bos>", "a", "b"}; !slices.Equal(v.Tokens(), want) {
		t.Errorf("%q", v.Tokens())
	}
	if v.Count("a") != 3 || v.Count("d") != 0 || v.Count("<pad>") != 0 || v.Len() != 5 {
		t.Error("counts")
	}
	if got := v.Encode([]string{"b", "x", "<bos>", "a"}); !slices.Equal(got, []int64{4, 0, 2, 3}) {
		t.Error(got)
	}
	if got := v.Decode([]int64{4, 0, 99, -1}); !slices.Equal(got, []string{"b", Unknown, Unknown, Unknown}) {
		t.Error(got)
	}
	all := NewVocab(Words("b a c"), 0)
	if want := []string{"<unk>", "a", "b", "c"}; !slices.Equal(all.Tokens(), want) {
		t.Errorf("equally frequent tokens are not in order: %q", all.Tokens())
	}
	back, err := VocabOf(v.Tokens())
	if err != nil || back.Number("b") != 4 {
		t.Error(err)
	}
	for _, bad := range [][]string{nil, {"a"}, {Unknown, "a", "a"}} {
		if _, err := VocabOf(bad); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestReadText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	for content, want := range map[string]string{"\ufeffhällo": "hällo", "": ""} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadText(path); err != nil || got != want {
			t.Errorf("%q %v", got, err)
		}
	}
	if err := os.WriteFile(path, []byte("\xff\xfe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadText(path); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	if _, err := ReadText(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func count(n int) []int64 {
	tokens := make([]int64, n)
	for i := range tokens {
		tokens[i] = int64(i)
	}
	return tokens
}

// requireWindows makes sure that each target is its input moved on by one, and
// gives where the inputs start.
func requireWindows(t *testing.T, x, y *locus.Tensor, steps int) []int64 {
	t.Helper()
	if x.Dim(1) != steps || y.Dim(1) != steps {
		t.Fatalf("%v %v", x.Shape(), y.Shape())
	}
	a, b := locus.ToSlice[int64](x), locus.ToSlice[int64](y)
	var starts []int64
	for i := range a {
		if i%steps == 0 {
			starts = append(starts, a[i])
		} else if a[i] != a[i-1]+1 {
			t.Fatalf("%v", a)
		}
		if b[i] != a[i]+1 {
			t.Fatalf("%v %v", a, b)
		}
	}
	return starts
}

func TestSequences(t *testing.T) {
	d, err := NewSequences(count(10), 4)
	if err != nil {
		t.Fatal(err)
	}
	b := batchOf(t, d, everything(d)...)
	if got := requireWindows(t, b[0], b[1], 4); !slices.Equal(got, count(6)) {
		t.Error(got)
	}
}

func TestRandomSequences(t *testing.T) {
	for n := 12; n < 40; n++ {
		d, err := NewRandomSequences(count(n), 5)
		if err != nil {
			t.Fatal(err)
		}
		l := mustLoad(t, d, Options{BatchSize: 1, Shuffle: true, Key: locus.NewKey(uint64(n))})
		offsets := map[int64]bool{}
		for epoch := range 80 {
			var starts []int64
			for b, err := range l.Epoch(epoch) {
				if err != nil {
					t.Fatal(err)
				}
				starts = append(starts, requireWindows(t, b.X(), b.Y(), 5)...)
			}
			slices.Sort(starts)
			offsets[starts[0]] = true
			for i, s := range starts { // they do not overlap
				if s != starts[0]+int64(5*i) {
					t.Fatalf("%v", starts)
				}
			}
		}
		if len(offsets) != 5 {
			t.Errorf("%d tokens: offsets %v", n, offsets)
		}
	}
}

func TestSequentialSequences(t *testing.T) {
	for n := 20; n < 60; n++ {
		d, err := NewSequentialSequences(count(n), 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		l := mustLoad(t, d, Options{BatchSize: 3, Key: locus.NewKey(1), Workers: 2})
		first := map[string]bool{}
		for epoch := range 20 {
			var last []int64
			for b, err := range l.Epoch(epoch) {
				if err != nil {
					t.Fatal(err)
				}
				starts := requireWindows(t, b.X(), b.Y(), 4)
				if len(starts) != 3 {
					t.Fatalf("%d rows", len(starts))
				}
				if last == nil {
					first[fmt.Sprint(starts)] = true
				}
				for i := range last {
					if starts[i] != last[i]+4 {
						t.Fatalf("%v follows %v", starts, last)
					}
				}
				last = starts
			}
		}
		if len(first) < 3 {
			t.Errorf("%d tokens: the offsets do not change: %v", n, first)
		}
	}
}

func TestSequencesRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"no steps":         second(NewSequences(count(10), 0)),
		"too short":        second(NewSequences(count(4), 4)),
		"random, short":    second(NewRandomSequences(count(9), 5)),
		"random, no steps": second(NewRandomSequences(count(9), 0)),
		"rows, short":      second(NewSequentialSequences(count(10), 5, 5)),
		"rows, none":       second(NewSequentialSequences(count(10), 0, 5)),
		"rows, no steps":   second(NewSequentialSequences(count(10), 2, -1)),
	} {
		if !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A text file becomes batches for a language model.
func TestTextToBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("The Time Traveller (for so it will be convenient). ", 20)), 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := ReadText(path)
	if err != nil {
		t.Fatal(err)
	}
	tokens := Chars(SimplifyText(text))
	v := NewVocab(tokens, 1)
	d, err := NewRandomSequences(v.Encode(tokens), 16)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for b, err := range mustLoad(t, d, Options{BatchSize: 8, Shuffle: true, DropLast: true}).Epoch(0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.X().Max().Int() >= int64(v.Len()) || b.X().Min().Int() < 1 {
			t.Error("a number that is no token")
		}
		n++
	}
	if n == 0 {
		t.Error("no batches")
	}
}

// A vocabulary as JSON, in a struct as a model's card has it.
func TestVocabAsJSON(t *testing.T) {
	type card struct{ Words *Vocab }
	v := NewVocab([]string{"b", "a", "b"}, 1, "<pad>")
	text, err := json.Marshal(card{v})
	if err != nil {
		t.Fatal(err)
	}
	var read card
	if err := json.Unmarshal(text, &read); err != nil || !slices.Equal(read.Words.Tokens(), v.Tokens()) || read.Words.Number("a") != v.Number("a") {
		t.Errorf("%s became %v: %v", text, read.Words, err)
	}
	for _, bad := range []string{`{}`, `[]`, `["a"]`, `["<unk>","a","a"]`} {
		if err := json.Unmarshal([]byte(bad), v); err == nil || v.Len() != 4 {
			t.Errorf("%s: %v, %d tokens", bad, err, v.Len())
		}
	}
	if _, err := json.Marshal(new(Vocab)); err == nil {
		t.Error("a zero value was written")
	}
}
