package optim

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
)

// Schedule returns the learning rate of each step as a multiple of the first one:
// a function of the number of steps taken, so that a run that goes on from a
// checkpoint needs nothing but that number.
type Schedule func(step int64) float64

// StepDecay multiplies by gamma every given number of steps.
func StepDecay(every int64, gamma float64) Schedule {
	check("StepDecay", atLeastZero("gamma", gamma))
	return func(step int64) float64 { return math.Pow(gamma, float64(step/max(every, 1))) }
}

// Milestones multiplies by gamma at each of the given steps.
func Milestones(gamma float64, at ...int64) Schedule {
	check("Milestones", atLeastZero("gamma", gamma))
	return func(step int64) float64 {
		f := 1.0
		for _, m := range at {
			if step >= m {
				f *= gamma
			}
		}
		return f
	}
}

// Cosine goes down along half a cosine from 1 to last over the given number of
// steps, and stays there.
func Cosine(steps int64, last float64) Schedule {
	check("Cosine", atLeastZero("the last rate", last))
	return func(step int64) float64 {
		t := math.Min(1, float64(step)/float64(max(steps, 1)))
		return last + (1-last)*(1+math.Cos(math.Pi*t))/2
	}
}

// Warmup rises in a straight line over the given number of steps, then goes on with
// next, whose steps count from there.
func Warmup(steps int64, next Schedule) Schedule {
	if next == nil {
		fail(locus.ErrArgument, "optim.Warmup", "what follows is nil", "pass optim.Fixed() to keep the rate")
	}
	return func(step int64) float64 {
		if step < steps {
			return float64(step+1) / float64(steps)
		}
		return next(step - steps)
	}
}

// OneCycle rises from 1/start of the rate to the whole of it over the fraction rise
// of the steps and falls to 1/end of the start after that, both along half a cosine
// (Smith and Topin, 2019).
func OneCycle(steps int64, rise, start, end float64) Schedule {
	if !(rise >= 0 && rise <= 1) {
		fail(locus.ErrArgument, "optim.OneCycle", fmt.Sprintf("the rise takes %v of the steps; want a fraction from 0 to 1", rise), "")
	}
	check("OneCycle", atLeastZero("1/start", 1/start), atLeastZero("1/end", 1/end))
	blend := func(a, b, t float64) float64 { return b + (a-b)*(1+math.Cos(math.Pi*t))/2 }
	return func(step int64) float64 {
		up := rise*float64(steps) - 1
		s := math.Min(float64(step), float64(steps-1))
		if s <= up {
			return blend(1/start, 1, s/math.Max(up, 1))
		}
		return blend(1, 1/(start*end), (s-up)/math.Max(float64(steps-1)-up, 1))
	}
}

// Fixed keeps the rate.
func Fixed() Schedule { return func(int64) float64 { return 1 } }
