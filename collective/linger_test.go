package collective

import (
	"runtime"
	"testing"
	"time"

	"github.com/locusml/locus"
)

// The goroutines of a group's queues end with the group.
func TestQueuesEndWithTheGroup(t *testing.T) {
	before := runtime.NumGoroutine()
	groups, err := Local([]locus.Device{locus.CPU(), locus.CPU()})
	if err != nil {
		t.Fatal(err)
	}
	var pending []*Pending
	for _, g := range groups {
		g.lingers = time.Hour
		pending = append(pending, g.AllReduce(t.Context(), locus.Ones(3), Sum))
	}
	for _, p := range pending {
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range groups {
		g.Close()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before the group", runtime.NumGoroutine(), before)
		}
	}
}
