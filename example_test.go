package locus_test

import (
	"errors"
	"fmt"

	"github.com/locusml/locus"
)

func Example() {
	a, b := virtualGPUs[0], virtualGPUs[1]
	x := a.Ones(2, 3)
	y := b.Full(2, 2, 3)
	err := locus.Try(func() { x.Add(y) })
	fmt.Println(errors.Is(err, locus.ErrDevice))
	z := x.To(b).Add(y)
	fmt.Println(z.Device() == b)
	fmt.Println(z.To(locus.CPU()))
	// Output:
	// true
	// true
	// [[3 3 3]
	//  [3 3 3]] float32 (2, 3) on cpu
}

func ExampleParseDevice() {
	for _, s := range []string{"cpu", "cuda:1", "gpu(0)", "/GPU:1"} {
		d, _ := locus.ParseDevice(s)
		fmt.Println(d)
	}
	// Output:
	// cpu
	// gpu:1
	// gpu:0
	// gpu:1
}

func ExampleTensor_To() {
	x := locus.Ones(2)
	y := x.To(virtualGPUs[0])
	fmt.Println(x.Device(), y.Device() == virtualGPUs[0], y.To(virtualGPUs[0]) == y)
	// Output: cpu true true
}

func ExampleFrom() {
	fmt.Println(locus.From([][]float32{{1, 2}, {3, 4}}))
	fmt.Println(locus.From([]int{1, 2, 3, 4, 5, 6}, 2, 3))
	// Output:
	// [[1 2]
	//  [3 4]] float32 (2, 2) on cpu
	// [[1 2 3]
	//  [4 5 6]] int64 (2, 3) on cpu
}

func ExampleScope() {
	w := locus.Full(2, 3)
	total := locus.Zeros()
	for step := range 3 {
		s := locus.NewScope()
		x := s.Use(w)
		loss := x.Mul(float64(step)).Square().Sum() // in s, with everything on the way
		total = s.Keep(total.Add(loss))
		s.Close() // frees all of it but total
	}
	fmt.Println(total.Item())
	// Output: 60
}

func ExampleGuard() {
	x := virtualGPUs[0].Ones(3)
	restore := locus.Guard(locus.Disallow, locus.DeviceToHost)
	err := locus.Try(func() { x.Sum().Item() })
	restore()
	fmt.Println(errors.Is(err, locus.ErrTransfer), x.Sum().Item())
	// Output: true 3
}

func ExampleKey() {
	k := locus.NewKey(1)
	same := locus.CPU().Key(k).Rand(2, 2).Eq(virtualGPUs[0].Key(k).Rand(2, 2).To(locus.CPU()))
	fmt.Println(same.All().Item() == 1)
	// Output: true
}

func ExampleGrad() {
	x := locus.From([]float32{1, 2, 3}).RequireGrad()
	y := x.Square().Sum()
	fmt.Println(locus.Grad([]*locus.Tensor{y}, []*locus.Tensor{x})[0])
	// Output: [2 4 6] float32 (3,) on cpu
}

func ExampleTensor_Slice() {
	x := locus.Arange(12).Reshape(3, 4)
	fmt.Println(x.Slice(locus.R(0, 2), locus.At(1)))
	fmt.Println(x.Slice(locus.All(), locus.R(3, 0, -2)))
	// Output:
	// [1 5] int64 (2,) on cpu
	// [[ 3  1]
	//  [ 7  5]
	//  [11  9]] int64 (3, 2) on cpu
}

func ExampleWithDevice() {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	var x *locus.Tensor
	locus.WithDevice(gpu, func() { x = locus.Ones(2, 3) }) // code that names no device
	fmt.Println(x.Device() == gpu, locus.DefaultDevice())
	// Output: true cpu
}
