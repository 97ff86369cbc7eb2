// Command locus shows devices, tours the framework, trains, predicts, looks into
// files of weights, measures, and finds out what is missing.
//
//	go install github.com/locusml/locus/cmd/locus@latest
//	locus tour
package main

import (
	"os"

	"github.com/locusml/locus/cmd/locus/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Standard()))
}
