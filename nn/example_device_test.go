package nn_test

import (
	"errors"
	"fmt"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// A network moves to a GPU as a whole, and lazy layers make their parameters there. Its
// inputs must be there too. (A virtual GPU stands for a real one: locus.GPU(0).)
func ExampleTo() {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	net := nn.To(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LazyLinear(2)), gpu)
	y := net.Forward(gpu.Ones(5, 3))
	fmt.Println(y.Shape(), y.Device() == gpu)
	err := locus.Try(func() { net.Forward(locus.Ones(5, 3)) })
	fmt.Println(errors.Is(err, locus.ErrDevice))
	// Output:
	// [5 2] true
	// true
}

// A replica on another device, with weights of its own: training one leaves the other.
func ExampleCopyTo() {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	net := nn.Linear(2, 2, nn.WithInit(nn.Constant(1)))
	replica := nn.CopyTo(net, gpu)
	net.Weight.Set(locus.Zeros(2, 2))
	fmt.Println(net.Weight.Value().Sum().Item(), replica.Weight.Value().Sum().Item())
	fmt.Println(replica.Weight.Device() == gpu)
	// Output:
	// 0 4
	// true
}

// Where a network is, so that inputs can be sent there. Parts on two devices are an error
// that names both.
func ExampleDevice() {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	net := nn.To(nn.Linear(3, 2), gpu)
	d, err := nn.Device(net)
	fmt.Println(net.Forward(locus.Ones(1, 3).To(d)).Shape(), err)
	_, err = nn.Device(nn.Sequential(net, nn.Linear(2, 1)))
	fmt.Println(errors.Is(err, locus.ErrDevice))
	// Output:
	// [1 2] <nil>
	// true
}

// All numbers of a network in another type, for good: half the memory in bfloat16.
func ExampleCast() {
	net := nn.Sequential(nn.Linear(100, 10), nn.BatchNorm(10))
	nn.Cast(net, locus.BFloat16)
	for _, e := range nn.State(net)[:2] {
		fmt.Println(e.Name, e.Value().DType(), e.Value().Bytes(), "bytes")
	}
	// Output:
	// 0.weight bfloat16 2000 bytes
	// 0.bias bfloat16 20 bytes
}

// Mixed precision: each step computes in bfloat16 with a copy of the moment, whose
// gradients arrive at the parameters in float32.
func ExampleLower() {
	net := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
	scope := locus.NewScope()
	defer scope.Close()
	half := nn.Lower(scope, net, locus.BFloat16)
	y := half.Forward(locus.Ones(2, 4).Cast(locus.BFloat16))
	y.Cast(locus.Float32).Sum().Backward()
	p := nn.Parameters(net)[0]
	fmt.Println(y.DType(), p.Value().DType(), p.Value().Grad().DType())
	// Output: bfloat16 float32 float32
}
