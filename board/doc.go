// Package board shows what a training run is doing.
//
// A [Board] collects points of named series, cheaply and from any goroutine:
//
//	var b board.Board
//	url, err := b.Serve("")                      // curves, live, in a browser on this machine
//	err = b.LogCSV("run.csv")                    // every point, as it is drawn
//	for step := range steps {
//		loss := train(step)
//		b.Draw("loss", float64(step), loss, 10)  // the mean of each 10 points
//	}
//	err = b.Save("loss.png")                     // or .svg
//	err = b.Close()
//
// [Board.Draw] does no input or output: web page, logs and TensorBoard files are fed by goroutines of their own. However
// long a run is, a board keeps a bounded number of points per series, chosen so that the curve keeps its shape; logs
// have them all.
//
// A series named "loss/train" is the curve "train" of the panel "loss". Names without a slash share the main panel.
// TensorBoard groups names in the same way.
//
// A [Progress] is the line at the bottom of a terminal: bar, epoch, step, rate, time left and latest metrics.
//
// The package works with plain numbers and knows nothing of tensors or devices, so drawing never makes a device wait:
// whoever draws has decided to read the number.
package board
