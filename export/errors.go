package export

import (
	"errors"
	"fmt"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/weights"
)

// fail panics with a misuse.
func fail(name string, kind error, msg, fix string) {
	panic(&locus.Error{Kind: kind, Op: name, Msg: msg, Fix: fix})
}

// failed returns err as what the function called name returns: a *locus.Error stays what
// it is, and so do errors of files.
func failed(name string, err error) error {
	var problem *op.Problem
	var own *locus.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.As(err, &problem):
		return &locus.Error{Kind: problem.Kind, Op: name, Msg: err.Error(), Fix: problem.Fix}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// malformed is the error of a file that breaks the rules. Texts of a file may be as long
// as the file: a message need not.
func malformed(format string, args ...any) error {
	const most = 1000
	msg := fmt.Sprintf(format, args...)
	if len(msg) > most {
		msg = strings.ToValidUTF8(msg[:most], "") + "…"
	}
	return &locus.Error{Kind: weights.ErrFormat, Op: "export.Load", Msg: msg, Fix: "load it from where it came from again, or save it again"}
}

// within says in which file something is wrong.
func within(path string, err error) error {
	var own *locus.Error
	if errors.As(err, &own) {
		e := *own
		e.Msg = path + ": " + e.Msg
		return &e
	}
	return err
}
