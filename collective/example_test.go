package collective_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// The program of a rank, however it was started: by "locus launch", mpirun, srun or torchrun
// it is one of several, and by hand a group of its own, as here.
func ExampleJoin() {
	ctx := context.Background()
	g, err := collective.Join(ctx,
		collective.JoinWithin(time.Minute),  // to wait for the others at the start
		collective.Timeout(10*time.Minute),  // to wait for a collective
		collective.DeadAfter(5*time.Second), // of silence, until a rank is given up
	)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	sum, err := g.AllReduce(ctx, locus.Ones(2), collective.Sum).Wait()
	fmt.Println(g.Rank(), g.Size(), sum, err)
	// Output:
	// 0 1 [1 1] float32 (2,) on cpu <nil>
}

// Two ranks that find each other without a launcher: each is told where it stands, and the
// address of rank 0. Usually they are two programs, not two goroutines.
func ExampleAt() {
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		log.Fatal(err)
	}
	l.Close()
	ctx := context.Background()
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			g, err := collective.Join(ctx, collective.Engine("ring"), collective.At(collective.Place{
				Rank: rank, Size: 2, LocalRank: rank, LocalSize: 2,
				Addr: l.Addr().String(), Token: "secret", Launcher: "by hand",
			}))
			if err != nil {
				log.Fatal(err)
			}
			defer g.Close()
			sum, err := g.AllReduce(ctx, locus.Full(float64(rank+1), 2), collective.Sum).Wait()
			if err != nil {
				log.Fatal(err)
			}
			if rank == 0 {
				fmt.Println(sum)
			}
		})
	}
	wg.Wait()
	// Output:
	// [3 3] float32 (2,) on cpu
}

// Average a tensor over the devices of one program: start the collective on each rank, then
// wait. Virtual GPUs stand in for real ones.
func ExampleLocal() {
	gpus := locus.AddVirtualGPUs(2, 16<<20)
	groups, err := collective.Local(gpus)
	if err != nil {
		log.Fatal(err)
	}
	pending := make([]*collective.Pending, len(groups))
	for i, g := range groups {
		defer g.Close()
		pending[i] = g.AllReduce(context.Background(), gpus[i].Full(float64(i), 2), collective.Mean)
	}
	for i, p := range pending {
		mean, err := p.Wait()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(locus.ToSlice[float32](mean), mean.Device() == gpus[i])
	}
	// Output:
	// [0.5 0.5] true
	// [0.5 0.5] true
}

// Run one function as all ranks of a group, each with its device. What goes wrong on one
// rank ends the others, and is the error.
func ExampleRunLocal() {
	gpus := locus.AddVirtualGPUs(2, 16<<20)
	err := collective.RunLocal(gpus, func(g *collective.Group, d locus.Device) error {
		sum, err := g.AllReduce(context.Background(), d.Full(float64(g.Rank()+1), 2), collective.Sum).Wait()
		if err == nil && g.Rank() == 0 {
			fmt.Println(locus.ToSlice[float32](sum))
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// [3 3]
	// <nil>
}

// Give all ranks what rank 0 has, put together what each has, and send a tensor to a
// neighbor.
func ExampleGroup() {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU(), locus.CPU()})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lines := make([]string, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			defer g.Close()
			x := locus.Full(float64(10+i), 1)
			first, err := g.Broadcast(ctx, x, 0).Wait()
			if err != nil {
				log.Fatal(err)
			}
			all, err := g.AllGather(ctx, x).Wait()
			if err != nil {
				log.Fatal(err)
			}
			sent := g.Send(ctx, x, (i+1)%3)
			left, err := g.Recv(ctx, x, (i+2)%3).Wait()
			if err != nil {
				log.Fatal(err)
			}
			if _, err := sent.Wait(); err != nil {
				log.Fatal(err)
			}
			lines[i] = fmt.Sprint(first.Item(), locus.ToSlice[float32](all), left.Item())
			if err := g.Barrier(ctx); err != nil { // nobody leaves before the others are done
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// 10 [10 11 12] 12
	// 10 [10 11 12] 10
	// 10 [10 11 12] 11
}

// Which rows of ten belong to each of three ranks.
func ExamplePart() {
	for rank := range 3 {
		from, to := collective.Part(10, rank, 3)
		fmt.Println("rank", rank, "has rows", from, "to", to-1)
	}
	// Output:
	// rank 0 has rows 0 to 3
	// rank 1 has rows 4 to 6
	// rank 2 has rows 7 to 9
}

// Find out where this program stands before it joins: to choose its GPU, say.
func ExampleFromEnv() {
	place, err := collective.FromEnv()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(place.Rank, place.Size, place.Device() == locus.TryGPU())
	// Output:
	// 0 1 true
}

// See what can move data among ranks on this machine. The ring, over TCP, always can.
func ExampleEngines() {
	engines, err := collective.Engines()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range engines {
		if e.Name == "ring" {
			fmt.Println(e.Name, e.Found)
		}
	}
	// Output:
	// ring true
}

// Notice a rank that does not come: the group of this program needs a second rank, which
// nobody has started.
func ExampleJoinWithin() {
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		log.Fatal(err)
	}
	l.Close()
	_, err = collective.Join(context.Background(), collective.JoinWithin(100*time.Millisecond),
		collective.At(collective.Place{Rank: 0, Size: 2, Addr: l.Addr().String(), Token: "secret"}))
	fmt.Println(errors.Is(err, collective.ErrRank))
	// Output:
	// true
}

// Notice a rank that does not take part in a collective, and find out which one it is.
func ExampleTimeout() {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU()}, collective.Timeout(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range groups {
		defer g.Close()
	}
	_, err = groups[0].AllReduce(context.Background(), locus.Ones(2), collective.Sum).Wait() // rank 1 sleeps
	var fault *collective.Fault
	fmt.Println(errors.Is(err, collective.ErrTimeout), errors.As(err, &fault) && fault.Rank == 1)
	// Output:
	// true true
}

// Give a silent rank up after five seconds instead of thirty.
func ExampleDeadAfter() {
	g, err := collective.Join(context.Background(), collective.DeadAfter(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	fmt.Println(g.Err()) // why the group is over
	// Output:
	// <nil>
}

// Choose what moves the data, whatever else there is on this machine: TCP, between two ranks.
func ExampleEngine() {
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		log.Fatal(err)
	}
	l.Close()
	engines := make([]string, 2)
	var wg sync.WaitGroup
	for rank := range engines {
		wg.Go(func() {
			place := collective.Place{Rank: rank, Size: 2, Addr: l.Addr().String(), Token: "secret"}
			g, err := collective.Join(context.Background(), collective.At(place), collective.Engine("ring"))
			if err != nil {
				log.Fatal(err)
			}
			defer g.Close()
			engines[rank] = g.Engine(locus.CPU())
		})
	}
	wg.Wait()
	fmt.Println(engines)
	// Output:
	// [ring ring]
}
