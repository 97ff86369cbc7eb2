package locus

import (
	"math"
)

// Dropout returns x with each element set to 0 with probability p, and the others
// divided by 1-p, so that sums keep their expected value. The same key drops the
// same elements on every device. Dropout belongs to training: for inference use x
// itself.
func Dropout(x *Tensor, p float64, key Key) *Tensor {
	x.wantFloat("Dropout")
	return x.drop("Dropout", p, key, x.shape)
}

// DropoutChannels is [Dropout] of whole channels: x (N, C, …).
func DropoutChannels(x *Tensor, p float64, key Key) *Tensor {
	axes := behindChannels("DropoutChannels", x)
	x.wantFloat("DropoutChannels")
	shape := x.Shape()
	for _, a := range axes {
		shape[a] = 1
	}
	return x.drop("DropoutChannels", p, key, shape)
}

func (t *Tensor) drop(name string, p float64, key Key, shape []int) *Tensor {
	kept := t.keepMask(name, p, key, shape)
	if kept == nil {
		return t.alias()
	}
	scale := 1.0
	if p < 1 {
		scale = 1 / (1 - p)
	}
	return kept.Where(t.Mul(scale), 0)
}

// keepMask is true with probability 1-p; nil where p is 0 and all is kept. It
// draws float32 whatever t's type: in 16 bits p would be coarse.
func (t *Tensor) keepMask(name string, p float64, key Key, shape []int) *Tensor {
	if !(p >= 0 && p <= 1) {
		failf(name, ErrArgument, []*Tensor{t}, "the probability is %v; want 0 to 1", p)
	}
	if p == 0 {
		return nil
	}
	return t.beside(t.place.device.Key(key).Rand(shape...)).Ge(p)
}

// AlphaDropout drops elements as [Dropout] does, but to [Tensor.Selu]'s lowest
// value instead of 0, and then shifts and scales so that mean 0 and variance 1
// stay. It goes with Selu.
func AlphaDropout(x *Tensor, p float64, key Key) *Tensor {
	x.wantFloat("AlphaDropout")
	kept := x.keepMask("AlphaDropout", p, key, x.shape)
	if kept == nil {
		return x.alias()
	}
	if p == 1 {
		return kept.Where(x, 0)
	}
	low := -seluAlpha * seluScale
	scale := 1 / math.Sqrt((1-p)*(1+p*low*low))
	return kept.Where(x, low).Mul(scale).Add(-scale * p * low)
}
