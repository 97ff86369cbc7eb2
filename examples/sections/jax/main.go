// Command jax is the section "GPUs" of Dive into Deep Learning, translated line by line
// from JAX and Flax. What stood there is in the comments.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/locusml/locus" // import jax; from jax import numpy as jnp
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn" // from flax import linen as nn
	"github.com/locusml/locus/train"
)

func main() {
	locus.AddVirtualGPUs(max(0, 2-locus.NumGPUs()), 0) // the section wants two GPUs
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	fmt.Fprintln(w, locus.CPU(), locus.GPU(), locus.GPU(1)) // jax.devices('cpu')[0], jax.devices('gpu')[0], …
	fmt.Fprintln(w, locus.NumGPUs())                        // jax.device_count('gpu'), or 0
	fmt.Fprintln(w, locus.TryGPU(), locus.TryGPU(10), locus.TryAllGPUs())

	x := locus.From([]int{1, 2, 3}) // x = jnp.array([1, 2, 3])
	fmt.Fprintln(w, x.Device())     // x.device(); here the CPU unless a GPU makes it

	X := locus.TryGPU().Ones(2, 3) // X = jax.device_put(jnp.ones((2, 3)), try_gpu())
	fmt.Fprintln(w, X)
	// Y = jax.device_put(jax.random.uniform(jax.random.PRNGKey(0), (2, 3)), try_gpu(1))
	Y := locus.TryGPU(1).Key(locus.NewKey(0)).Rand(2, 3)
	fmt.Fprintln(w, Y)

	Z := X.To(locus.TryGPU(1)) // Z = jax.device_put(X, try_gpu(1))
	fmt.Fprintln(w, X)
	fmt.Fprintln(w, Z)

	fmt.Fprintln(w, Y.Add(Z))                  // Y + Z
	Z2 := Z.To(locus.TryGPU(1))                // Z2 = jax.device_put(Z, try_gpu(1))
	fmt.Fprintln(w, Z2 == Z)                   // Z2 is Z
	net := nn.Sequential(nn.LazyLinear(1))     // net = nn.Sequential([nn.Dense(1)])
	keys := locus.NewKey(0).Split(2)           // key1, key2 = jax.random.split(jax.random.PRNGKey(0))
	in := locus.CPU().Key(keys[0]).Randn(10)   // x = jax.random.normal(key1, (10,))
	params := nn.Init(net, keys[1], in)        // params = net.init(key2, x)
	fmt.Fprintln(w, nn.Apply(net, params, in)) // net.apply(params, x)

	// print(jax.tree_util.tree_map(lambda x: x.device(), params))
	fmt.Fprintln(w, params.Devices())
	gpu := locus.TryGPU() // params = jax.device_put(params, try_gpu())
	params = params.Map(func(_ string, t *locus.Tensor) *locus.Tensor { return t.To(gpu) })
	fmt.Fprintln(w, params.Devices())
	fmt.Fprintln(w, nn.Apply(net, params, in.To(gpu)).Device())

	// The trainer has num_gpus and prepare_batch.
	learn, _, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		return err
	}
	report, err := train.New(train.MaxEpochs(3), train.Devices(gpu)).
		Fit(train.Classifier(nn.Sequential(nn.Flatten(), nn.LazyLinear(10))), train.Data{Train: learn, BatchSize: 64})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "trained on %v\n", report.Devices)
	return nil
}
