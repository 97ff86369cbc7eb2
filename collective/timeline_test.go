package collective_test

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// Collectives are on the timeline, with what they were.
func TestTimeline(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(2)
		line := locus.Profile(func() {
			each(t, 2, func(r int) error {
				_, err := groups[r].AllReduce(ctx, ones(1000), collective.Sum).Wait()
				return err
			})
		})
		n := 0
		for _, s := range line.Spans {
			if s.Name == "AllReduce" && s.Host && strings.Contains(s.Detail, "all-reduce sum of float32 (1000,)") && s.Bytes == 4000 && s.End > s.Start && s.End <= line.Total {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d collectives on\n%v", n, line)
		}
	})
}

func TestTimelineOfCards(t *testing.T) {
	collective.FakeCards(t, 22803, false)
	groups := joinCards(t, 2)
	line := locus.Profile(func() {
		each(t, 2, func(r int) error {
			_, err := groups[r].AllReduce(ctx, gpus()[r].Ones(1000), collective.Sum).Wait()
			if err == nil {
				err = groups[r].Close() // which waits for what is under way
			}
			return err
		})
	})
	if !strings.Contains(line.String(), "AllReduce") {
		t.Errorf("%v", line)
	}
}
