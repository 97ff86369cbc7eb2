package control

import "fmt"

// Cause is why a group ended before its time.
type Cause string

// The causes.
const (
	Unreachable Cause = "unreachable" // a rank has not come, or cannot be connected to
	Died        Cause = "died"        // a rank's process ended
	Silent      Cause = "silent"      // a rank does not answer
	Late        Cause = "late"        // a collective took longer than its time-out
	Differ      Cause = "differ"      // ranks are not about to do the same
	Failed      Cause = "failed"      // a rank gave up
	Left        Cause = "left"        // a rank has left the group
	Setup       Cause = "setup"       // ranks were started with values that do not fit together
)

// Fault is the error of a group that has ended before its time. Rank is the one whose
// fault it is, -1 where that cannot be said.
type Fault struct {
	Cause Cause
	Rank  int
	Host  string
	Msg   string
}

func (f *Fault) Error() string { return f.Msg }

// Peer is a rank as the others know it.
type Peer struct {
	Rank int
	Host string
	PID  int
	Addr string // where it can be connected to
	Info string // what the program wants the others to know
}

func (p Peer) String() string {
	if p.Host == "" {
		return fmt.Sprintf("rank %d", p.Rank)
	}
	return fmt.Sprintf("rank %d (process %d on %s)", p.Rank, p.PID, p.Host)
}
