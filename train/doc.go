// Package train trains networks: a [Trainer] puts model and batches where they
// belong, runs epochs, and reports.
//
//	model := train.Classifier(net)
//	trainer := train.New(train.MaxEpochs(10), train.NumGPUs(1), train.ClipGradients(1))
//	report, err := trainer.Fit(model, train.Data{Train: trainSet, Validation: testSet, BatchSize: 256})
//
// With several GPUs training is mirrored: each has a replica, each batch is split
// over them, gradients are added up, and all replicas take the same step.
//
// Metrics are added up on the device. The host reads them now and then, all at
// once, and at the end of an epoch: no step waits for its loss.
package train
