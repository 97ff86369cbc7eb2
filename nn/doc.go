// Package nn builds networks: layers, and what is done with all of a network's
// parameters at once (moving, copying, counting, saving).
//
// A network is a plain Go struct. What it learns are its fields of type
// *[Parameter], those of the layers it is made of, and *locus.Tensor fields
// marked with the tag `nn:"param"`; they are found by walking fields, slices,
// arrays and maps, and named by the path to them: "hidden.weight", "layers.0.bias".
// Layers of this package have the names and layouts of PyTorch's, so that a
// checkpoint written there loads with [Load]. A field with the tag `nn:"inline"`
// adds no name of its own to the path, `nn:"buffer"` marks a tensor that is kept
// but not trained, and `nn:"-"` a field that is no part of the network.
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
// replicates it, and using a network with an input on another device is the
// error that names both.
package nn
