package train_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/train"
)

// Ranks share predictions out, and each gets all of them in order, also where some have
// nothing of the last batch. One that leaves early, or fails, ends the loops of the others.
func TestRanksPredict(t *testing.T) {
	net := nn.Sequential(nn.Linear(2, 3, nn.WithKey(locus.NewKey(1))), nn.Tanh())
	d := train.Data{Predict: spirals(t, 61), BatchSize: 12}
	predict := func(tr *train.Trainer, ctx context.Context, stop int) (all []float32, err error) {
		for y, e := range tr.PredictContext(ctx, net, d) {
			if e != nil {
				return all, e
			}
			all = append(all, locus.ToSlice[float32](y)...)
			y.Free()
			if stop--; stop == 0 {
				break
			}
		}
		return all, nil
	}
	want, err := predict(train.New(), t.Context(), 0)
	if err != nil || len(want) != 61*3 {
		t.Fatal(len(want), err)
	}
	broken := train.PrepareBatch(func(b *train.Batch) error {
		if b.Index == 2 {
			return errors.New("out of luck")
		}
		return nil
	})
	for name, c := range map[string]struct {
		stop   func(rank int) int
		cancel bool
		opts   func(rank int) []train.Option
		check  func(rank int, all []float32, err error) bool
	}{
		"all": {check: func(_ int, all []float32, err error) bool { return err == nil && slices.Equal(all, want) }},
		"two devices each": {opts: func(int) []train.Option { return []train.Option{train.Devices(gpus[:2]...)} },
			check: func(_ int, all []float32, err error) bool { return err == nil && slices.Equal(all, want) }},
		"all leave":                 {stop: func(int) int { return 2 }, check: func(_ int, all []float32, err error) bool { return err == nil && slices.Equal(all, want[:2*12*3]) }},
		"all leave behind the last": {stop: func(int) int { return 6 }, check: func(_ int, all []float32, err error) bool { return err == nil && slices.Equal(all, want) }},
		"one leaves": {stop: func(rank int) int { return 2 * (rank % 2) }, check: func(rank int, all []float32, err error) bool {
			return rank == 1 && err == nil || rank != 1 && errors.Is(err, locus.ErrArgument) && strings.Contains(err.Error(), "has left its loop")
		}},
		"one is interrupted": {cancel: true, check: func(_ int, _ []float32, err error) bool { return errors.Is(err, context.Canceled) }},
		"one fails": {opts: func(rank int) []train.Option { return []train.Option{broken}[:rank%2] }, check: func(rank int, _ []float32, err error) bool {
			return rank == 1 && err != nil && err.Error() == "out of luck" || rank != 1 && errors.Is(err, collective.ErrRank) && strings.Contains(err.Error(), "out of luck")
		}},
	} {
		groups, err := collective.Local(cpus(3), collective.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i, g := range groups {
			wg.Go(func() {
				defer g.Close()
				opts := []train.Option{train.Ranks(g)}
				if c.opts != nil {
					opts = append(opts, c.opts(i)...)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel && i == 1 {
					cancel()
				}
				stop := 0
				if c.stop != nil {
					stop = c.stop(i)
				}
				all, err := predict(train.New(opts...), ctx, stop)
				if !c.check(i, all, err) {
					t.Errorf("%s: rank %d has %d numbers, %v", name, i, len(all), err)
				}
			})
		}
		wg.Wait()
	}
	// A panic in the loop of one rank ends the others'.
	groups, err := collective.Local(cpus(2), collective.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer g.Close()
			defer func() {
				if v := recover(); (v == nil) != (i == 0) {
					t.Errorf("rank %d: %v", i, v)
				}
			}()
			for _, err := range train.New(train.Ranks(g)).Predict(net, d) {
				if i == 1 {
					panic("out of luck")
				}
				if err != nil && !strings.Contains(fmt.Sprint(err), "ended by a panic") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
