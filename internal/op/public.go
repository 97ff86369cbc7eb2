package op

import "strings"

// publicNames are the names under which a program knows primitives, where they are
// not simply the primitive's in capitals.
var publicNames = map[string]string{
	"argmax": "ArgMax", "argmin": "ArgMin", "argsort": "ArgSort", "cumsum": "CumSum", "cummax": "CumMax", "cummin": "CumMin", "logsumexp": "LogSumExp", "matmul": "MatMul",
	"isnan": "IsNaN", "isinf": "IsInf", "isfinite": "IsFinite",
	"rand_uniform": "Rand", "rand_normal": "Randn", "rand_int": "Randint", "rand_bits": "Permutation",
	"conv2d": "Conv2D", "conv2d_act": "Conv2D", "conv2d_grad_input": "Conv2D's gradient", "conv2d_grad_weight": "Conv2D's gradient",
	"max_pool": "MaxPool2D", "max_pool_indices": "MaxPool2D", "avg_pool": "AvgPool2D", "normalize": "LayerNorm",
	"leaky_slope":            "LeakyRelu's gradient",
	"ctc_loss":               "CTCLoss",
	"grid_sample_grad_input": "GridSample's gradient", "grid_sample_grad_grid": "GridSample's gradient",
	"qr": "QR", "svd": "SVD", "fft": "FFT", "rfft": "RFFT", "irfft": "IRFFT", "slogdet": "SlogDet", "cofactor": "Det's gradient",
	"recurrent": "RNNSequence", // and the LSTM's and the GRU's: an error at a wait knows only the primitive
}

// Public returns the name under which a program knows the primitive called name:
// "FloorDiv" of "floor_div". Other names it returns as they are.
func Public(name string) string {
	if p, ok := publicNames[name]; ok {
		return p
	}
	if _, ok := ByName(name); !ok || name == "" {
		return name
	}
	if base, ok := strings.CutSuffix(name, "_grad"); ok {
		return Public(base) + "'s gradient"
	}
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
