// Package data brings examples to a training loop.
//
// A [Dataset] returns batches of examples as tensors; a [Loader] decides which,
// makes them ahead of time on other goroutines, and puts them on a device:
//
//	loader, err := data.NewLoader(train, data.Options{BatchSize: 256, Shuffle: true, Key: key, Device: gpu})
//	for epoch := range 10 {
//		for batch, err := range loader.Epoch(epoch) {
//			if err != nil {
//				return err
//			}
//			step(batch.X(), batch.Y())
//		}
//	}
//
// Everything random comes from keys: the same key yields the same batches,
// whatever the number of workers, and a run can go on in the middle of an epoch.
//
// Datasets come from tensors ([NewTensorDataset]), from tables ([ReadCSV]), text
// ([NewVocab], [NewSequences]), folders of images ([ImageFolder]), and by name:
// [Digits], [FashionMNIST], [MNIST], [SyntheticRegression]. [Subset], [Concat],
// [Split] and [Map] make new ones of them.
//
// What is read into memory has a limit, which the error names and an option
// raises: [MaxBytes], CSVOptions.MaxBytes, Features.MaxBytes,
// ImageOptions.MaxPixels. A path that is not a regular file, such as a pipe, is an error.
package data
