package collective_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
)

// rowsAndColumns splits four ranks into rows and columns of two, and tries both.
func rowsAndColumns(g *collective.Group) error {
	row, err := g.Split(ctx, g.Rank()/2)
	if err != nil {
		return err
	}
	defer row.Close()
	column, err := g.Split(ctx, g.Rank()%2)
	if err != nil {
		return err
	}
	defer column.Close()
	if row.Size() != 2 || row.Rank() != g.Rank()%2 || column.Rank() != g.Rank()/2 || row.Engine(locus.CPU()) != g.Engine(locus.CPU()) {
		return fmt.Errorf("rank %d is %d of %d in its row by %s, and %d in its column", g.Rank(), row.Rank(), row.Size(), row.Engine(locus.CPU()), column.Rank())
	}
	x := ones(3).Mul(g.Rank() + 1)
	for _, c := range []struct {
		g    *collective.Group
		want int
	}{{row, []int{3, 3, 7, 7}[g.Rank()]}, {column, []int{4, 6, 4, 6}[g.Rank()]}, {g, 10}} {
		y, err := c.g.AllReduce(ctx, x, collective.Sum).Wait()
		if err != nil {
			return err
		}
		if v := y.Min().Item(); v != float64(c.want) {
			return fmt.Errorf("rank %d: a sum of %d ranks is %v, not %d", g.Rank(), c.g.Size(), v, c.want)
		}
	}
	if err := collectivetest.Run(context.Background(), column, collectivetest.Config{Short: true, Large: 5_001}); err != nil {
		return err
	}
	// One alone, one nowhere, two together.
	part, err := g.Split(ctx, []int{5, -1, 7, 7}[g.Rank()])
	if err != nil {
		return err
	}
	if g.Rank() == 1 {
		if part != nil {
			return fmt.Errorf("color -1 got a group")
		}
	} else {
		defer part.Close()
		if want := []int{1, 0, 2, 2}[g.Rank()]; part.Size() != want {
			return fmt.Errorf("rank %d is in a group of %d", g.Rank(), part.Size())
		}
		if _, err := part.AllReduce(ctx, x, collective.Sum).Wait(); err != nil {
			return err
		}
	}
	return g.Barrier(ctx)
}

func TestSplit(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(4)
		each(t, 4, func(r int) error { return rowsAndColumns(groups[r]) })
	})
}

// A fault in a part leaves the whole as it was.
func TestSplitFault(t *testing.T) {
	inEach(t, func(t *testing.T, group func(int, ...collective.Option) []*collective.Group) {
		groups := group(4)
		each(t, 4, func(r int) error {
			part, err := groups[r].Split(ctx, r%2)
			if err != nil {
				return err
			}
			defer part.Close()
			n := 3
			if r == 0 {
				n = 4
			}
			_, err = part.AllReduce(ctx, ones(n), collective.Sum).Wait()
			if r%2 == 0 {
				if err := want(err, collective.ErrMismatch); err != nil {
					return err
				}
			} else if err != nil {
				return err
			}
			_, err = groups[r].AllReduce(ctx, ones(3), collective.Sum).Wait()
			return err
		})
	})
}

func TestSplitMistakes(t *testing.T) {
	groups := local(t, cpus(1))
	if _, err := groups[0].Split(ctx, -2); want(err, locus.ErrArgument) != nil {
		t.Error(err)
	}
	var none *collective.Group
	if _, err := none.Split(ctx, 0); want(err, locus.ErrArgument) != nil {
		t.Error(err)
	}
}
