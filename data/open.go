package data

import (
	"fmt"
	"strings"

	"github.com/locusml/locus"
)

// Names lists the datasets that [Open] knows.
func Names() []string { return []string{"digits", "fashion-mnist", "mnist"} }

// Open returns a dataset by name, for programs that let their user choose: "digits"
// ([DigitsSplit], always the same split), "fashion-mnist" ([FashionMNIST]) or
// "mnist" ([MNIST]). The first comes with this package, the others from files.
func Open(name string, from Source) (train, test *Classified, err error) {
	switch name {
	case "digits":
		return DigitsSplit(locus.NewKey(0))
	case "fashion-mnist":
		return FashionMNIST(from)
	case "mnist":
		return MNIST(from)
	}
	return nil, nil, fmt.Errorf("data: there is no dataset %q; there are %s: %w", name, strings.Join(Names(), ", "), locus.ErrArgument)
}
