package metric_test

import (
	"fmt"
	"log"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train/metric"
)

// Measure a classifier in a loop of one's own: batches of any size add up to what one batch
// of all examples would give.
func ExampleNewMeter() {
	m := metric.NewMeter(metric.Accuracy(), metric.TopK(2))
	m.Add(locus.From([][]float32{{9, 1, 0}, {1, 5, 2}, {3, 2, 1}}), locus.From([]int{0, 1, 1}))
	m.Add(locus.From([][]float32{{4, 0, 3}}), locus.From([]int{1}))
	fmt.Println(m.Values()["accuracy"], m.Values()["top_2_accuracy"])
	// Output:
	// 0.5 0.75
}

// Look at each class: how much of what was predicted is right, and how much was found.
func ExamplePrecisionRecallF1() {
	scores := locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}}) // predicts 0 1 1 1
	classes := locus.From([]int{0, 0, 1, 1})
	m := metric.NewMeter(metric.PrecisionRecallF1(2, metric.Binary))
	m.Add(scores, classes)
	v := m.Values()
	fmt.Printf("precision %.2f, recall %.2f, f1 %.2f\n", v["precision"], v["recall"], v["f1"])
	// Output:
	// precision 0.67, recall 1.00, f1 0.80
}

// One of the three, as a mean over the classes or over all examples; two of one name get
// names of their own.
func ExampleAs() {
	scores := locus.From([][]float32{{1, 0}, {1, 0}, {0, 1}, {0, 1}})
	classes := locus.From([]int{0, 0, 0, 1})
	m := metric.NewMeter(
		metric.F1(2, metric.Weighted), metric.As("macro_", metric.F1(2, metric.Macro)),
		metric.Precision(2, metric.Macro), metric.Recall(2, metric.Micro),
	)
	m.Add(scores, classes)
	v := m.Values()
	fmt.Printf("%.2f %.2f %.2f %.2f\n", v["f1"], v["macro_f1"], v["precision"], v["recall"])
	// Output:
	// 0.77 0.73 0.75 0.75
}

// What was taken for what: a row for each class, a column for each prediction.
func ExampleConfusionMatrix() {
	scores := locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}})
	m := metric.NewMeter(metric.ConfusionMatrix(2))
	m.Add(scores, locus.From([]int{0, 0, 1, 1}))
	fmt.Println(m.Tables()["confusion_matrix"])
	// Output:
	// [[1 1] [0 2]]
}

// How well scores tell two classes apart, whatever the threshold. AUC counts scores in bins;
// ExactAUC keeps them all.
func ExampleAUC() {
	logits := locus.From([]float32{-2, -1, 0.5, 3})
	classes := locus.From([]int{0, 1, 0, 1})
	m := metric.NewMeter(metric.AUC(0), metric.As("exact_", metric.ExactAUC()))
	m.Add(logits, classes)
	fmt.Println(m.Values()["auc"], m.Values()["exact_auc"])
	// Output:
	// 0.75 0.75
}

// Measure a regression.
func ExampleMAE() {
	m := metric.NewMeter(metric.MAE(), metric.MSE(), metric.RMSE(), metric.R2())
	m.Add(locus.From([]float32{1, 2, 3, 6}), locus.From([]float32{1, 2, 3, 4}))
	v := m.Values()
	fmt.Printf("%.2f %.2f %.2f %.2f\n", v["mae"], v["mse"], v["rmse"], v["r2"])
	// Output:
	// 0.50 1.00 1.00 0.20
}

// Measure a language model. Padding, here the token -100, does not count.
func ExamplePerplexity() {
	scores := locus.Zeros(1, 4, 3) // as likely as each other: four tokens, three positions
	tokens := locus.From([][]int{{2, 1, -100}})
	m := metric.NewMeter(metric.Perplexity(new(-100)))
	m.Add(scores, tokens)
	fmt.Printf("%.2f\n", m.Values()["perplexity"])
	// Output:
	// 4.00
}

// A metric of one's own: statistics that add up, and a number that is made of their sums.
func ExampleFunc() {
	within := metric.Func("within_1",
		func(output, target *locus.Tensor) []*locus.Tensor {
			near := output.Sub(target).Abs().Le(1)
			return []*locus.Tensor{near.Sum(), locus.Full(float64(target.Len()))}
		},
		func(sums [][]float64) float64 { return sums[0][0] / sums[1][0] })
	m := metric.NewMeter(within)
	m.Add(locus.From([]float32{1, 2, 3}), locus.From([]float32{1.5, 4, 3}))
	m.Add(locus.From([]float32{7}), locus.From([]float32{7}))
	fmt.Println(m.Values()["within_1"])
	// Output:
	// 0.75
}

// Put together what several devices have measured: a meter for each.
func ExampleRead() {
	gpus := locus.AddVirtualGPUs(2, 16<<20) // they stand in for real ones
	meters := []*metric.Meter{metric.NewMeter(metric.MAE()), metric.NewMeter(metric.MAE())}
	for i, d := range gpus {
		meters[i].Add(d.Full(float64(i), 10), d.Zeros(10))
	}
	fmt.Println(metric.Read(meters...).Values["mae"])
	// Output:
	// 0.5
}

// Find out whether metrics can be measured together: each name may come once.
func ExampleCheck() {
	if err := metric.Check(metric.MAE(), metric.RMSE()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(metric.Check(metric.MAE(), metric.MAE()) != nil)
	// Output:
	// true
}

// Keep what a meter has seen with a checkpoint, and go on.
func ExampleMeter_SetState() {
	first := metric.NewMeter(metric.MAE())
	first.Add(locus.Zeros(3), locus.Ones(3))

	second := metric.NewMeter(metric.MAE())
	if err := second.SetState(first.State()); err != nil {
		log.Fatal(err)
	}
	second.Add(locus.Zeros(1), locus.Full(5, 1))
	fmt.Println(second.Values()["mae"])
	// Output:
	// 2
}

// The part of predictions, 0 1 1 1 here, that are right.
func ExampleAccuracy() {
	m := metric.NewMeter(metric.Accuracy())
	m.Add(locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}}), locus.From([]int{0, 0, 1, 1}))
	fmt.Printf("%.2f\n", m.Values()["accuracy"])
	// Output:
	// 0.75
}

// The part of examples whose class is among the two largest scores.
func ExampleTopK() {
	m := metric.NewMeter(metric.TopK(2))
	m.Add(locus.From([][]float32{{5, 3, 1}, {5, 3, 1}}), locus.From([]int{1, 2}))
	fmt.Printf("%.2f\n", m.Values()["top_2_accuracy"])
	// Output:
	// 0.50
}

// Of the three predictions of class 1 two are right.
func ExamplePrecision() {
	m := metric.NewMeter(metric.Precision(2, metric.Binary))
	m.Add(locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}}), locus.From([]int{0, 0, 1, 1}))
	fmt.Printf("%.2f\n", m.Values()["precision"])
	// Output:
	// 0.67
}

// Both examples of class 1 were found.
func ExampleRecall() {
	m := metric.NewMeter(metric.Recall(2, metric.Binary))
	m.Add(locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}}), locus.From([]int{0, 0, 1, 1}))
	fmt.Printf("%.2f\n", m.Values()["recall"])
	// Output:
	// 1.00
}

// Precision and recall in one number: the mean over the classes.
func ExampleF1() {
	m := metric.NewMeter(metric.F1(2, metric.Macro))
	m.Add(locus.From([][]float32{{1, 0}, {0, 1}, {0, 1}, {0, 1}}), locus.From([]int{0, 0, 1, 1}))
	fmt.Printf("%.2f\n", m.Values()["f1"])
	// Output:
	// 0.73
}

// In three of four pairs the example of class 1 has the higher score.
func ExampleExactAUC() {
	m := metric.NewMeter(metric.ExactAUC())
	m.Add(locus.From([]float32{-2, -1, 0.5, 3}), locus.From([]int{0, 1, 0, 1}))
	fmt.Printf("%.2f\n", m.Values()["auc"])
	// Output:
	// 0.75
}

// One of four predictions is off by 2.
func ExampleMSE() {
	m := metric.NewMeter(metric.MSE())
	m.Add(locus.From([]float32{1, 2, 3, 6}), locus.From([]float32{1, 2, 3, 4}))
	fmt.Printf("%.2f\n", m.Values()["mse"])
	// Output:
	// 1.00
}

// The root of the mean squared error has the unit of the targets.
func ExampleRMSE() {
	m := metric.NewMeter(metric.RMSE())
	m.Add(locus.From([]float32{1, 2, 3, 6}), locus.From([]float32{1, 2, 3, 4}))
	fmt.Printf("%.2f\n", m.Values()["rmse"])
	// Output:
	// 1.00
}

// How much better than the mean of the targets: 1 is perfect, 0 no better.
func ExampleR2() {
	m := metric.NewMeter(metric.R2())
	m.Add(locus.From([]float32{1, 2, 3, 6}), locus.From([]float32{1, 2, 3, 4}))
	fmt.Printf("%.2f\n", m.Values()["r2"])
	// Output:
	// 0.20
}
