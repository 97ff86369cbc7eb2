package data

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// ReadText reads a file of UTF-8 text. [MaxBytes] says how large it may be.
func ReadText(path string, opts ...ReadOption) (string, error) {
	file, err := disk.Open(path)
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	most := readOptions(opts).limit(info.Size(), false)
	tooLarge := fmt.Errorf("data: %s: %w", path, malformed("it has more than %d bytes; if it is meant to, allow more with data.MaxBytes", most))
	if info.Size() > most {
		return "", tooLarge
	}
	var b strings.Builder
	b.Grow(int(info.Size()))
	n, err := io.Copy(&b, io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("data: %w", err)
	case n > most: // it has grown since
		return "", tooLarge
	case !utf8.ValidString(b.String()):
		return "", fmt.Errorf("data: %s is not UTF-8 text: %w", path, ErrFormat)
	}
	return strings.TrimPrefix(b.String(), "\ufeff"), nil
}

// SimplifyText makes a small alphabet of a text: letters become lower case, and
// whatever lies between them becomes one space. An apostrophe inside a word
// counts as between.
func SimplifyText(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space := false
	for _, r := range text {
		if !unicode.IsLetter(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Chars cuts a text into characters.
func Chars(text string) []string {
	tokens := make([]string, 0, len(text))
	for _, r := range text {
		tokens = append(tokens, string(r))
	}
	return tokens
}

// Words cuts a text at white space.
func Words(text string) []string { return strings.Fields(text) }

// Vocab numbers the tokens of a text. The number 0 stands for all tokens that it
// does not know, "<unk>"; then come the reserved tokens, then the others, the most
// frequent first and equally frequent ones in alphabetical order.
type Vocab struct {
	tokens  []string
	counts  []int
	numbers map[string]int64
}

// Unknown is the token that stands for all tokens that a vocabulary does not know.
const Unknown = "<unk>"

// NewVocab makes the vocabulary of the tokens that occur at least minFreq times,
// and of reserved ones such as "<pad>" or "<bos>".
func NewVocab(tokens []string, minFreq int, reserved ...string) *Vocab {
	count := map[string]int{}
	for _, t := range tokens {
		count[t]++
	}
	v := &Vocab{numbers: map[string]int64{}}
	add := func(token string) {
		if _, known := v.numbers[token]; !known {
			v.numbers[token] = int64(len(v.tokens))
			v.tokens = append(v.tokens, token)
			v.counts = append(v.counts, count[token])
		}
	}
	add(Unknown)
	for _, token := range reserved {
		add(token)
	}
	rest := slices.Sorted(maps.Keys(count))
	slices.SortStableFunc(rest, func(a, b string) int { return count[b] - count[a] })
	for _, token := range rest {
		if count[token] >= minFreq {
			add(token)
		}
	}
	return v
}

// Len is the number of tokens, the unknown one included.
func (v *Vocab) Len() int {
	gate.Receiver("data.Vocab.Len", v != nil && v.numbers != nil, "make it with data.NewVocab")
	return len(v.tokens)
}

// Tokens lists the tokens by number. A vocabulary can be stored as this list:
// [VocabOf] reads it back.
func (v *Vocab) Tokens() []string {
	gate.Receiver("data.Vocab.Tokens", v != nil && v.numbers != nil, "make it with data.NewVocab")
	return slices.Clone(v.tokens)
}

// VocabOf returns the vocabulary of a list made by [Vocab.Tokens].
func VocabOf(tokens []string) (*Vocab, error) {
	v := &Vocab{tokens: slices.Clone(tokens), counts: make([]int, len(tokens)), numbers: map[string]int64{}}
	for i, t := range tokens {
		v.numbers[t] = int64(i)
	}
	if len(tokens) == 0 || tokens[0] != Unknown || len(v.numbers) != len(tokens) {
		return nil, fmt.Errorf("data: a vocabulary starts with %s and has each token once: %w", Unknown, locus.ErrArgument)
	}
	return v, nil
}

// MarshalJSON returns the tokens in the order of their numbers, to be kept with the
// model. Counts are not kept.
func (v *Vocab) MarshalJSON() ([]byte, error) {
	if v == nil || len(v.tokens) == 0 {
		return nil, fmt.Errorf("data: a vocabulary that is nil or a zero value; make it with data.NewVocab: %w", locus.ErrArgument)
	}
	return json.Marshal(v.tokens)
}

// UnmarshalJSON reads what MarshalJSON wrote; see [VocabOf].
func (v *Vocab) UnmarshalJSON(b []byte) error {
	if v == nil {
		return fmt.Errorf("data: the vocabulary to read into is nil: %w", locus.ErrArgument)
	}
	var tokens []string
	if err := json.Unmarshal(b, &tokens); err != nil {
		return fmt.Errorf("data: not a vocabulary: %w", err)
	}
	read, err := VocabOf(tokens)
	if err != nil {
		return err
	}
	*v = *read
	return nil
}

// Number returns a token's number, 0 if it is not known.
func (v *Vocab) Number(token string) int64 {
	gate.Receiver("data.Vocab.Number", v != nil && v.numbers != nil, "make it with data.NewVocab")
	return v.numbers[token]
}

// Token returns the token of a number.
func (v *Vocab) Token(number int64) string {
	gate.Receiver("data.Vocab.Token", v != nil && v.numbers != nil, "make it with data.NewVocab")
	if number < 0 || number >= int64(len(v.tokens)) {
		return Unknown
	}
	return v.tokens[number]
}

// Count returns how often a token occurs in the text that the vocabulary was made
// of.
func (v *Vocab) Count(token string) int {
	gate.Receiver("data.Vocab.Count", v != nil && v.numbers != nil, "make it with data.NewVocab")
	if n, ok := v.numbers[token]; ok {
		return v.counts[n]
	}
	return 0
}

// Encode returns the numbers of tokens.
func (v *Vocab) Encode(tokens []string) []int64 {
	gate.Receiver("data.Vocab.Encode", v != nil && v.numbers != nil, "make it with data.NewVocab")
	numbers := make([]int64, len(tokens))
	for i, t := range tokens {
		numbers[i] = v.numbers[t]
	}
	return numbers
}

// Decode returns the tokens of numbers.
func (v *Vocab) Decode(numbers []int64) []string {
	gate.Receiver("data.Vocab.Decode", v != nil && v.numbers != nil, "make it with data.NewVocab")
	tokens := make([]string, len(numbers))
	for i, n := range numbers {
		tokens[i] = v.Token(n)
	}
	return tokens
}
