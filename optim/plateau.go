package optim

import (
	"fmt"
	"math"
)

// PlateauOptions are the options of [NewPlateau].
type PlateauOptions struct {
	Factor    float64 // what the rate is multiplied by; 0 means 0.1
	Patience  int     // values in a row without improvement before that; 0 means 10
	Cooldown  int     // values after a reduction that do not count
	Threshold float64 // how much better, relative to the best, counts as better; 0 means 1e-4
	Min       float64 // the smallest multiple of the first rate
	Highest   bool    // higher values are better
}

// Plateau lowers the learning rate when a value, such as the validation loss, stops
// improving. A [Schedule] cannot do that: it knows only the number of steps.
//
//	plateau := optim.NewPlateau(optim.PlateauOptions{Patience: 3})
//	for … {
//		plateau.Observe(loss)
//		opt.SetLR(lr * plateau.Factor())
//	}
type Plateau struct {
	o     PlateauOptions
	state PlateauState
}

// PlateauState is what a plateau remembers, for a checkpoint.
type PlateauState struct {
	Factor   float64 `json:"factor"` // of the first rate
	Seen     bool    `json:"seen"`   // there was a value
	Best     float64 `json:"best"`
	Since    int     `json:"since"`    // values since the best
	Cooldown int     `json:"cooldown"` // values that do not count yet
}

// NewPlateau makes a plateau that has seen no value yet.
func NewPlateau(o PlateauOptions) *Plateau {
	o = o.withDefaults()
	check("NewPlateau", o.Check())
	return &Plateau{o, PlateauState{Factor: 1}}
}

func (o PlateauOptions) withDefaults() PlateauOptions {
	o.Factor, o.Threshold = or(o.Factor, 0.1), or(o.Threshold, 1e-4)
	if o.Patience == 0 {
		o.Patience = 10
	}
	return o
}

// Check returns an error for invalid options.
func (o PlateauOptions) Check() error {
	o = o.withDefaults()
	switch {
	case !(o.Factor > 0 && o.Factor < 1):
		return fmt.Errorf("Factor is %v; want more than 0 and less than 1", o.Factor)
	case o.Patience < 1 || o.Cooldown < 0:
		return fmt.Errorf("the Patience is %d and Cooldown is %d; want at least 1 and 0", o.Patience, o.Cooldown)
	case !(o.Min >= 0 && o.Min <= 1):
		return fmt.Errorf("the Min is %v; want a fraction of the first rate, 0 to 1", o.Min)
	}
	return atLeastZero("Threshold", o.Threshold)
}

// ready panics unless p was made by NewPlateau.
func (p *Plateau) ready() *Plateau {
	if p == nil || p.state.Factor == 0 {
		check("Plateau", fmt.Errorf("the plateau is nil or a zero value; make it with optim.NewPlateau"))
	}
	return p
}

// Factor is what to multiply the first learning rate by.
func (p *Plateau) Factor() float64 { return p.ready().state.Factor }

// Observe takes the next value and reports whether the rate went down. NaN is never
// better.
func (p *Plateau) Observe(value float64) (lowered bool) {
	s := &p.ready().state
	switch {
	case p.better(value):
		s.Best, s.Seen, s.Since = value, true, 0
	default:
		s.Since++
	}
	if s.Cooldown > 0 {
		s.Cooldown--
		s.Since = 0
	}
	if s.Since < p.o.Patience {
		return false
	}
	s.Since, s.Cooldown = 0, p.o.Cooldown
	before := s.Factor
	s.Factor = max(s.Factor*p.o.Factor, p.o.Min)
	if s.Factor == 0 { // too small for a number
		s.Factor = before
	}
	return s.Factor < before
}

func (p *Plateau) better(v float64) bool {
	s := &p.state
	margin := p.o.Threshold * math.Abs(s.Best)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return false
	case !s.Seen:
		return true
	case p.o.Highest:
		return v > s.Best+margin
	}
	return v < s.Best-margin
}

// State returns what the plateau remembers.
func (p *Plateau) State() PlateauState { return p.ready().state }

// SetState restores what State returned.
func (p *Plateau) SetState(s PlateauState) error {
	if !(s.Factor > 0 && s.Factor <= 1) || s.Since < 0 || s.Cooldown < 0 || math.IsNaN(s.Best) {
		return fmt.Errorf("optim: %+v is not the state of a plateau", s)
	}
	p.ready().state = s
	return nil
}
