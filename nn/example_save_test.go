package nn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// A network's weights in a file, and back in a network of the same structure.
func ExampleSave() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")

	net, again := nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Sequential(nn.Linear(3, 4), nn.ReLU())
	fmt.Println(nn.Save(path, net), nn.Load(path, again))
	x := locus.Ones(1, 3)
	fmt.Println(again.Forward(x).AllClose(net.Forward(x), 0, 0))
	// Output:
	// <nil> <nil>
	// true
}

// A lazy network gets its shapes from the file. For one that does not fit, the error lists
// everything that is wrong, and the network is left as it is.
func ExampleLoad() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")
	if err := nn.Save(path, nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))); err != nil {
		fmt.Println(err)
	}

	fmt.Println(nn.Load(path, nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))))
	err := nn.Load(path, nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)))
	var match *weights.MatchError
	fmt.Println(errors.As(err, &match), len(match.Different))
	// Output:
	// <nil>
	// true 2
}

// Texts beside the weights say how to build the network that they belong to.
func ExampleSaveWith() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")

	net := nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
	fmt.Println(nn.SaveWith(path, net, map[string]string{"hidden": "4"}))
	texts, err := nn.Metadata(path)
	fmt.Println(texts["hidden"], err)
	// Output:
	// <nil>
	// 4 <nil>
}

// A trained body under a new head: the file lacks the head, and has an old one that the
// network lacks.
func ExampleAllowMissing() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "old.safetensors")
	type Old struct{ Body, Classes *nn.LinearLayer }
	type New struct{ Body, Price *nn.LinearLayer }

	old, net := &Old{nn.Linear(3, 8), nn.Linear(8, 10)}, &New{nn.Linear(3, 8), nn.Linear(8, 1)}
	fmt.Println(nn.Save(path, old))
	fmt.Println(nn.Load(path, net, nn.AllowMissing(), nn.AllowUnexpected()))
	fmt.Println(net.Body.Weight.Value().AllClose(old.Body.Weight.Value(), 0, 0))
	// Output:
	// <nil>
	// <nil>
	// true
}

// A file whose names all begin with "model.".
func ExampleRename() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "wrapped.safetensors")
	fmt.Println(nn.Save(path, &struct{ Model *nn.LinearLayer }{nn.Linear(3, 4)}))

	plain := nn.Rename(func(name string) string { return strings.TrimPrefix(name, "model.") })
	fmt.Println(nn.Load(path, nn.Linear(3, 4), plain))
	// Output:
	// <nil>
	// <nil>
}

// A file that is open already: one that package weights has read from memory, say, or one
// that holds more than the network.
func ExampleLoadFrom() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.npz")
	net := nn.Linear(3, 4)
	fmt.Println(weights.SaveNPZ(path, nn.TreeOf(net)))

	file, err := weights.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	fmt.Println(file.Names(), nn.LoadFrom(file, nn.LazyLinear(4)))
	// Output:
	// <nil>
	// [bias weight] <nil>
}

// What was written beside the weights, before the network is there: it says what to build.
func ExampleMetadata() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")
	fmt.Println(nn.SaveWith(path, nn.Linear(3, 7), map[string]string{"classes": "7"}))

	texts, err := nn.Metadata(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	classes, _ := strconv.Atoi(texts["classes"])
	net := nn.LazyLinear(classes)
	fmt.Println(nn.Load(path, net), net.Weight.Value().Shape())
	// Output:
	// <nil>
	// <nil> [7 3]
}

// The first layers of a larger network: what else the file holds is passed over.
func ExampleAllowUnexpected() {
	dir, _ := os.MkdirTemp("", "nn")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "large.safetensors")
	fmt.Println(nn.Save(path, nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))))

	first := nn.Sequential(nn.Linear(3, 4), nn.ReLU())
	fmt.Println(nn.Load(path, first) != nil, nn.Load(path, first, nn.AllowUnexpected()))
	// Output:
	// <nil>
	// true <nil>
}
