// Package export saves what a network or a compiled function computes to a file, and
// runs it in a program that does not have its source code.
//
// The file is a safetensors file: its tensors are the weights, and a text in its metadata
// lists the ops. It holds no code of any device and runs on all of them: [Load] makes a
// [Program], which is compiled for the device that it is used on.
//
//	err := export.SaveNet("digits.locus", net, x) // x decides shape and element type
//
//	p, err := export.Load("digits.locus") // elsewhere
//	y := p.Call(x)[0]
//
// Untrusted files are safe to load: everything in them is checked before it is used.
package export
