package nn_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// In training about a quarter of the elements become 0, and the others grow so that the
// mean stays; in use nothing happens.
func ExampleDropout() {
	drop := nn.Dropout(0.25, nn.WithKey(locus.NewKey(1)))
	x := locus.Ones(100, 100)
	y := drop.Forward(x)
	fmt.Printf("%.2f are dropped, the largest is %.2f, the mean %.1f\n",
		y.Eq(0).Sum().Item()/10000, y.Max().Item(), y.Mean().Item())
	fmt.Println(nn.Eval(drop).Forward(x).Min().Item())
	// Output:
	// 0.25 are dropped, the largest is 1.33, the mean 1.0
	// 1
}

// Neighboring pixels say almost the same, so images lose whole channels.
func ExampleDropoutChannels() {
	drop := nn.DropoutChannels(0.5, nn.WithKey(locus.NewKey(1)))
	sums := drop.Forward(locus.Ones(1, 1000, 2, 2)).Sum(2, 3)
	whole, none := sums.Eq(8).Sum().Item(), sums.Eq(0).Sum().Item()
	fmt.Println(whole+none == 1000, none > 400 && none < 600)
	// Output: true true
}

// Dropout for networks of SELU, which live on mean 0 and deviation 1.
func ExampleAlphaDropout() {
	key := locus.NewKey(2)
	net := nn.Sequential(nn.SELU(), nn.AlphaDropout(0.1, nn.WithKey(key)))
	y := net.Forward(locus.CPU().Key(key).Randn(200, 200))
	fmt.Printf("%.1f %.1f\n", y.Mean().Abs().Item(), y.Std().Item())
	// Output: 0.0 1.0
}

// The same masks again: for comparing two runs.
func ExampleReseed() {
	net := nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.1))
	x := locus.Ones(100)
	a := nn.Reseed(net, locus.NewKey(5)).Forward(x)
	b := nn.Reseed(net, locus.NewKey(5)).Forward(x)
	fmt.Println(a.AllClose(b, 0, 0), a.AllClose(net.Forward(x), 0, 0))
	// Output: true false
}

// A run that goes on where it stopped needs to know how far its dropout layers were, too.
func ExampleCounters() {
	x := locus.Ones(100)
	net := nn.Sequential(nn.Dropout(0.5), nn.Linear(100, 1))
	net.Forward(x)
	saved := nn.Counters(net)
	next := net.At(0).Forward(x)

	again := nn.Sequential(nn.Dropout(0.5), nn.Linear(100, 1))
	fmt.Println(nn.SetCounters(again, saved))
	fmt.Println(again.At(0).Forward(x).AllClose(next, 0, 0))
	// Output:
	// <nil>
	// true
}

// Two replicas that see three and two of the five examples of a batch drop what one
// network would drop.
func ExampleSetPart() {
	build := func() *nn.DropoutLayer { return nn.Dropout(0.5, nn.WithKey(locus.NewKey(3))) }
	x := locus.Ones(5, 20)
	whole := build().Forward(x)
	first := nn.SetPart(build(), 0, 3).Forward(x.Narrow(0, 0, 3))
	second := nn.SetPart(build(), 3, 2).Forward(x.Narrow(0, 3, 5))
	fmt.Println(locus.Concat(0, first, second).AllClose(whole, 0, 0))
	// Output: true
}

// Counters of another network are refused, by name, and nothing is changed.
func ExampleSetCounters() {
	saved := nn.Counters(nn.Sequential(nn.Dropout(0.5)))
	net := nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
	err := nn.SetCounters(net, saved)
	fmt.Println(errors.Is(err, locus.ErrArgument), strings.Contains(err.Error(), "0.key"))
	fmt.Println(nn.SetCounters(net, nn.Counters(net)))
	// Output:
	// true true
	// <nil>
}
