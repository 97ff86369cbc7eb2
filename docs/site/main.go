// Command site builds the guide as a folder of static pages: the README, docs/ in
// reading order, the examples with their code, the changelog, with search in the
// browser. From the module's folder:
//
//	go run ./docs/site -o site
//
// Open index.html, or let any web server serve the folder. The pages make no
// requests to other hosts. A link that leads nowhere, or Markdown that the converter
// does not know, fails the build with file and line.
//
// The order of the pages is that of docs/README.md. A page that is not listed there
// is shown under "More".
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "site", "the folder to write; an earlier site there is replaced")
	root := flag.String("root", ".", "the module's folder")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("site: unexpected argument %q", flag.Arg(0))
	}
	s, err := build(*root)
	if err != nil {
		log.Fatalf("site: %v", err)
	}
	for _, p := range s.unlisted {
		fmt.Fprintf(os.Stderr, "%s is not listed in docs/README.md: it is shown under %q\n", p, more)
	}
	if err := s.write(*out); err != nil {
		log.Fatalf("site: %v", err)
	}
	fmt.Printf("%d pages, %d sections to search, in %s\n", len(s.pages), len(s.index()), *out)
}
