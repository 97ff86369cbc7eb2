package optim_test

import (
	"fmt"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// A schedule in a loop of one's own: the rate of each step is a multiple of the first one.
// The trainer does this by itself with train.Schedule.
func ExampleSchedule() {
	const lr = 0.1
	opt := optim.SGD(nn.Parameters(nn.Linear(2, 1)), lr, optim.SGDOptions{})
	var schedule optim.Schedule = optim.StepDecay(2, 0.5)
	for range 5 {
		opt.SetLR(lr * schedule(opt.Steps()))
		fmt.Println(opt.LR())
		opt.Step()
	}
	// Output:
	// 0.1
	// 0.1
	// 0.05
	// 0.05
	// 0.025
}

// Halve the rate every 100 steps.
func ExampleStepDecay() {
	rate := optim.StepDecay(100, 0.5)
	fmt.Println(rate(0), rate(99), rate(100), rate(250))
	// Output:
	// 1 1 0.5 0.25
}

// Take the rate down to a tenth at steps 300 and 400.
func ExampleMilestones() {
	rate := optim.Milestones(0.1, 300, 400)
	fmt.Printf("%.2f %.2f %.2f\n", rate(299), rate(300), rate(400))
	// Output:
	// 1.00 0.10 0.01
}

// Go down smoothly to a hundredth of the rate over 1000 steps.
func ExampleCosine() {
	rate := optim.Cosine(1000, 0.01)
	fmt.Printf("%.2f %.2f %.2f %.2f\n", rate(0), rate(500), rate(1000), rate(5000))
	// Output:
	// 1.00 0.51 0.01 0.01
}

// Begin slowly: rise over 10 steps, then go down along a cosine over 90 more.
func ExampleWarmup() {
	rate := optim.Warmup(10, optim.Cosine(90, 0))
	fmt.Printf("%.2f %.2f %.2f %.2f\n", rate(0), rate(9), rate(55), rate(100))
	// Output:
	// 0.10 1.00 0.50 0.00
}

// Begin slowly, and keep the rate then.
func ExampleFixed() {
	rate := optim.Warmup(4, optim.Fixed())
	fmt.Println(rate(0), rate(1), rate(2), rate(3), rate(1000))
	// Output:
	// 0.25 0.5 0.75 1 1
}

// One cycle over 100 steps: from a 25th of the rate up to all of it in the first 30 steps,
// then down to a 10,000th of where it began.
func ExampleOneCycle() {
	rate := optim.OneCycle(100, 0.3, 25, 1e4)
	fmt.Printf("%.2f %.2f %.6f\n", rate(0), rate(29), rate(99))
	// Output:
	// 0.04 1.00 0.000004
}

// Halve the rate when the validation loss has not become better for two epochs.
func ExampleNewPlateau() {
	const lr = 0.1
	opt := optim.SGD(nn.Parameters(nn.Linear(2, 1)), lr, optim.SGDOptions{})
	plateau := optim.NewPlateau(optim.PlateauOptions{Factor: 0.5, Patience: 2})
	for epoch, loss := range []float64{3, 2, 2, 2, 2, 1} {
		if plateau.Observe(loss) {
			opt.SetLR(lr * plateau.Factor())
			fmt.Println("epoch", epoch, "rate", opt.LR())
		}
	}
	// Output:
	// epoch 3 rate 0.05
}

// The same for an accuracy, of which higher values are better. Less than one percent more
// does not count as better, the three epochs after a change do not count at all, and the
// rate stays above a hundredth of the first.
func ExamplePlateauOptions() {
	plateau := optim.NewPlateau(optim.PlateauOptions{
		Factor: 0.1, Patience: 1, Cooldown: 3, Threshold: 0.01, Min: 0.01, Highest: true,
	})
	for range 20 {
		plateau.Observe(0.9)
	}
	fmt.Printf("%.2f\n", plateau.Factor())
	// Output:
	// 0.01
}
