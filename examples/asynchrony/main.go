// Command asynchrony shows what returns before it is computed. Ops on a GPU are
// queued: the call returns a tensor at once, the GPU computes it when it comes to it,
// and the program waits only where it needs a value. The ledger lists every wait with
// the line behind it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/locusml/locus"
)

func main() {
	if err := run(os.Stdout, 512, 10); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, n, products int) error {
	if locus.NumGPUs() == 0 {
		fmt.Fprint(w, "no GPU found; adding a virtual one, which queues as a real one does\n\n")
		locus.AddVirtualGPUs(1, 512<<20)
	}
	gpu := locus.GPU(0)
	x := gpu.Key(locus.NewKey(1)).Randn(n, n)
	x.MatMul(x) // the first product loads what products need
	if err := gpu.Synchronize(); err != nil {
		return err
	}

	// 1. The calls return, the work is done later.
	queued, done, err := multiply(gpu, x, products)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d products of %d×%d on %s: queued after %v, computed after %v\n", products, n, n, gpu, queued.Round(time.Microsecond), done.Round(time.Microsecond))

	// 2. What can be known without the values does not wait; what needs them does.
	locus.ResetLedger()
	norm := x.MatMul(x).Norm()
	_ = norm.Shape()       // does not wait
	_ = norm.To(gpu)       // does not wait: it is there already
	_ = norm.Mul(2).Add(1) // does not wait: is queued behind
	before := waits()
	_ = norm.Item() // waits: a number in Go
	fmt.Fprintf(w, "\nwaits before the value was read: %d, after: %d\n", before, waits())
	fmt.Fprint(w, locus.Ledger())

	// 3. The order of the program is kept: a barrier after each product gives the
	// same numbers, and the queue is empty again and again.
	slow, err := sums(gpu, x, products, true)
	if err != nil {
		return err
	}
	fast, err := sums(gpu, x, products, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\na wait after each of %d small sums: %v; one at the end: %v; the same value: %v\n", 50*products, slow.time.Round(time.Microsecond), fast.time.Round(time.Microsecond), slow.value == fast.value)

	// 4. What fails in the queue is reported by the next wait, with the op's name.
	gpu.Ones(3).Take(0, gpu.From([]int{7}))
	fmt.Fprintln(w, "\nan index out of range was queued, and nothing happened yet; the next wait says:")
	err = gpu.Synchronize()
	if !errors.Is(err, locus.ErrIndex) {
		return fmt.Errorf("the wait returned %v", err)
	}
	fmt.Fprintln(w, err)
	return nil
}

// multiply tells when the calls had returned and when the work was done.
func multiply(gpu locus.Device, x *locus.Tensor, products int) (queued, done time.Duration, err error) {
	start := time.Now()
	y := x
	for range products {
		y = y.MatMul(x)
	}
	queued = time.Since(start)
	err = gpu.Synchronize()
	return queued, time.Since(start), err
}

// waits counts what made the program wait for a value.
func waits() int64 { return locus.Ledger().Count(locus.DeviceToHost) }

type result struct {
	time  time.Duration
	value float64
}

// sums adds small numbers up, with a wait after each or one at the end.
func sums(gpu locus.Device, x *locus.Tensor, products int, wait bool) (result, error) {
	start := time.Now()
	small := x.Slice(locus.R(0, 8), locus.R(0, 8))
	total := gpu.Zeros()
	for range 50 * products {
		total = total.Add(small.Sum())
		if wait {
			if err := gpu.Synchronize(); err != nil {
				return result{}, err
			}
		}
	}
	v := total.Item()
	return result{time.Since(start), v}, nil
}
