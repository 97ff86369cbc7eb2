package collective

import (
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Option changes how a group is made.
type Option struct{ set func(*settings) }

type settings struct {
	timeout, joinWithin, deadAfter time.Duration
	engine                         string
	place                          *Place
}

// The times that hold unless a program says otherwise.
const (
	defaultTimeout    = 10 * time.Minute
	defaultJoinWithin = 2 * time.Minute
	defaultDeadAfter  = 30 * time.Second
)

func newSettings(options []Option) (*settings, error) {
	s := &settings{timeout: defaultTimeout, joinWithin: defaultJoinWithin, deadAfter: defaultDeadAfter}
	for _, o := range options {
		if err := gate.Given("an option", o.set); err != nil {
			return nil, err
		}
		o.set(s)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"Timeout", s.timeout}, {"JoinWithin", s.joinWithin}, {"DeadAfter", s.deadAfter}} {
		if d.d < time.Millisecond || d.d > 100*24*time.Hour {
			return nil, problem(locus.ErrArgument, "", "%s is %v; want between 1ms and 2400h", d.name, d.d)
		}
	}
	return s, nil
}

// Timeout sets how long a collective may take, including the wait for the other ranks,
// before the group ends with an [ErrTimeout] that names the rank that is missing. It is 10
// minutes unless said otherwise.
func Timeout(d time.Duration) Option { return Option{func(s *settings) { s.timeout = d }} }

// JoinWithin sets how long ranks wait for each other in [Join]: 2 minutes unless said
// otherwise.
func JoinWithin(d time.Duration) Option { return Option{func(s *settings) { s.joinWithin = d }} }

// DeadAfter sets how long a rank may be silent before the others consider it dead: 30
// seconds unless said otherwise. A rank that computes is not silent: a goroutine of its own
// answers. A process that ends is noticed at once.
func DeadAfter(d time.Duration) Option { return Option{func(s *settings) { s.deadAfter = d }} }

// Engine chooses what moves the data: "ring", "mpi" or "nccl", or "auto", which is the
// default. The environment variable LOCUS_COLLECTIVE does the same; the option takes
// precedence.
func Engine(name string) Option { return Option{func(s *settings) { s.engine = name }} }

// At sets this process's place, instead of the environment.
func At(p Place) Option { return Option{func(s *settings) { s.place = &p }} }
