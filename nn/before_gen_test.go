//go:build before

package nn_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// TestWriteBefore writes testdata/before anew:
//
//	go test -tags before -run TestWriteBefore ./nn
//
// Files that are there are promises; a change that needs new ones breaks them.
// Write new ones beside them instead.
func TestWriteBefore(t *testing.T) {
	folder := filepath.Join("testdata", "before")
	net := nn.Train(beforeNet(false))
	for range 5 { // so that the statistics are not those of the beginning
		net.Forward(beforeInput(16))
	}
	nn.Eval(net)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		nn.SaveWith(filepath.Join(folder, "net.safetensors"), net, map[string]string{"about": "a small network"}),
		weights.SaveNPZ(filepath.Join(folder, "net.npz"), nn.TreeOf(net)),
		weights.SaveNPY(filepath.Join(folder, "output.npy"), net.Forward(beforeInput(4)).Detach()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
