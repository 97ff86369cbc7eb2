package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/engine"
	"github.com/locusml/locus/internal/op"
)

// The kinds of error of a group, for errors.Is, besides those of package locus.
var (
	ErrRank     = errors.New("a rank is gone")      // it died, hangs, failed, left, or never joined
	ErrMismatch = errors.New("ranks differ")        // they are not about to do the same
	ErrTimeout  = errors.New("out of time")         // a collective took too long
	ErrClosed   = errors.New("the group is closed") // by this rank
)

// Fault says which rank ended a group. It is the Kind of the *[locus.Error] that every rank
// gets, so that errors.As finds it:
//
//	var f *collective.Fault
//	if errors.As(err, &f) && f.Rank == 3 { … }
type Fault struct {
	Kind error  // ErrRank, ErrMismatch or ErrTimeout
	Rank int    // the rank that is at fault, -1 where that cannot be said
	Host string // where it runs, "" if that is not known
}

// Error returns the kind.
func (f *Fault) Error() string {
	if f == nil || f.Kind == nil {
		return "<no fault>"
	}
	return f.Kind.Error()
}

// Unwrap returns the kind.
func (f *Fault) Unwrap() error {
	if f == nil {
		return nil
	}
	return f.Kind
}

// fixes say what to do about a fault.
var fixes = map[control.Cause]string{
	control.Unreachable: "start as many ranks as the group has, and make sure that each can reach rank 0's address; collective.JoinWithin allows more time",
	control.Died:        "see that rank's own output for the reason",
	control.Silent:      "check whether that process is stopped or its machine is gone; collective.DeadAfter allows more time",
	control.Late:        "check what that rank does instead; collective.Timeout allows more time",
	control.Differ:      "let all ranks call the same collectives with the same shapes in the same order",
	control.Failed:      "see that rank's own error",
	control.Left:        "let all ranks call the same collectives before they close the group",
	control.Setup:       "start all ranks with the same launcher and the same values",
}

// newError returns err, of the collective called name, as a *locus.Error.
func newError(name string, err error) error {
	e := &locus.Error{Op: name, Kind: locus.ErrArgument, Msg: err.Error()}
	var own *locus.Error
	var fault *control.Fault
	var p *op.Problem
	var mismatch *engine.Mismatch
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &fault):
		kind := ErrRank
		switch fault.Cause {
		case control.Late:
			kind = ErrTimeout
		case control.Differ:
			kind = ErrMismatch
		case control.Setup:
			kind = locus.ErrArgument
		}
		e.Kind, e.Msg, e.Fix = &Fault{kind, fault.Rank, fault.Host}, fault.Msg, fixes[fault.Cause]
	case errors.As(err, &p):
		e.Kind, e.Msg, e.Fix = p.Kind, p.Msg, p.Fix
	case errors.As(err, &mismatch):
		e.Kind, e.Fix = &Fault{ErrMismatch, -1, ""}, "let both sides use the same shape and type"
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Msg = ErrTimeout, fmt.Sprintf("the context ended: %v", err)
	case errors.Is(err, context.Canceled):
		e.Kind, e.Msg = context.Canceled, fmt.Sprintf("the context ended: %v", err)
	default:
		e.Kind = &Fault{ErrRank, -1, ""}
	}
	return e
}
