package data_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Turn a text into numbers: read it, make its alphabet small, cut it into words, and number
// those. Words that come once are unknown.
func ExampleReadText() {
	folder, err := os.MkdirTemp("", "text")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "rhyme.txt")
	if err := os.WriteFile(path, []byte("The cat, the hat; a cat!"), 0o666); err != nil {
		log.Fatal(err)
	}

	text, err := data.ReadText(path, data.MaxBytes(1<<20))
	if err != nil {
		log.Fatal(err)
	}
	words := data.Words(data.SimplifyText(text))
	vocab := data.NewVocab(words, 2)
	fmt.Println(words)
	fmt.Println(vocab.Tokens(), vocab.Encode(words))
	// Output:
	// [the cat the hat a cat]
	// [<unk> cat the] [2 1 2 0 0 1]
}

// Number tokens, with reserved ones for padding and for the beginning of a sentence.
func ExampleNewVocab() {
	vocab := data.NewVocab([]string{"to", "be", "or", "not", "to", "be"}, 1, "<pad>", "<bos>")
	fmt.Println(vocab.Tokens())
	fmt.Println(vocab.Encode([]string{"<bos>", "be", "here"}), vocab.Count("be"))
	// Output:
	// [<unk> <pad> <bos> be to not or]
	// [2 3 0] 2
}

// Keep a vocabulary as a list, and make it again.
func ExampleVocabOf() {
	vocab := data.NewVocab(data.Words("a rose is a rose"), 1)
	again, err := data.VocabOf(vocab.Tokens())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Decode(vocab.Encode([]string{"a", "rose", "tree"})))
	// Output:
	// [a rose <unk>]
}

// Cut a text into its characters.
func ExampleChars() {
	fmt.Println(len(data.Chars("Grüße")), data.Chars("Hi!"))
	// Output:
	// 5 [H i !]
}

// Make letters lower case, and whatever lies between words one space.
func ExampleSimplifyText() {
	fmt.Println(data.SimplifyText("The Time Machine, by H. G. Wells (1895)"))
	// Output:
	// the time machine by h g wells
}

// Every run of three tokens is an example; the target is the same run moved on by one.
func ExampleNewSequences() {
	set, err := data.NewSequences([]int64{1, 2, 3, 4, 5, 6}, 3)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := set.Batch([]int{0, 2}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Len(), locus.ToSlice[int64](batch[0]), locus.ToSlice[int64](batch[1]))
	// Output:
	// 3 [1 2 3 3 4 5] [2 3 4 4 5 6]
}

// Batches that go on where the batch before them ended, so that a recurrent network can keep
// its state from one to the next.
func ExampleNewSequentialSequences() {
	tokens := make([]int64, 40)
	for i := range tokens {
		tokens[i] = int64(i)
	}
	set, err := data.NewSequentialSequences(tokens, 2, 5)
	if err != nil {
		log.Fatal(err)
	}
	loader, err := data.NewLoader(set, data.Options{BatchSize: 2}) // the same batch size, and no Shuffle
	if err != nil {
		log.Fatal(err)
	}
	last := int64(-1)
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			log.Fatal(err)
		}
		row := locus.ToSlice[int64](batch.X())[:5]
		if last >= 0 {
			fmt.Println(row[0] == last+1)
		}
		last = row[4]
	}
	// Output:
	// true
	// true
}

// Cut a text into words.
func ExampleWords() {
	fmt.Println(len(data.Words("to be,  or\nnot to be")))
	// Output:
	// 6
}

// Read no more into memory than one expects.
func ExampleMaxBytes() {
	folder, err := os.MkdirTemp("", "text")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "long.txt")
	if err := os.WriteFile(path, make([]byte, 1000), 0o666); err != nil {
		log.Fatal(err)
	}
	_, err = data.ReadText(path, data.MaxBytes(100))
	fmt.Println(err != nil)
	// Output:
	// true
}
