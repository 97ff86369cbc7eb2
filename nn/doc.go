// Package nn builds networks: layers, and what is done with all of a network's
// parameters at once (moving, copying, counting, saving).
//
//	net := nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
//	nn.To(net, locus.TryGPU())
//	scores := net.Forward(x) // (N, 784) → (N, 10)
//
// A network is a plain Go struct. What it learns are its fields of type
// *[Parameter], those of the layers it is made of, and *locus.Tensor fields
// marked with the tag `nn:"param"`; what it keeps and does not learn are its
// fields of type *[Buffer], and *locus.Tensor fields with the tag `nn:"buffer"`.
// They are found by walking exported fields, slices, arrays and maps, and named
// by the path to them: "hidden.weight", "layers.0.bias". Layers of this package
// have the names and layouts of PyTorch's, so that a checkpoint written there
// loads with [Load]. A field with the tag `nn:"inline"` adds no name of its own to
// the path, and `nn:"-"` marks a field that is not part of the network. [Check]
// finds what was probably forgotten.
//
//	type Net struct {
//		Hidden, Out *nn.LinearLayer
//		Scale       *locus.Tensor `nn:"param"`
//	}
//
//	func (n *Net) Forward(x *locus.Tensor) *locus.Tensor {
//		return n.Out.Forward(n.Hidden.Forward(x).Relu()).Mul(n.Scale)
//	}
//
// Parameters live on a device like any tensor: [To] moves a network, [CopyTo]
// replicates it, and using a network with an input on another device is an error
// that names both.
//
// State is in cells: parameters, buffers, and what dropout draws from. A replica
// ([CopyTo]) has its own. A copy that computes in the network's place with other
// tensors ([Bind]) shares them, so that running statistics arrive in the network.
// [Apply] and [ApplyTrain] change nothing and return the new state.
package nn
