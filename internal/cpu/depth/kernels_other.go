//go:build !amd64 && !arm64

package depth

import "github.com/locusml/locus/internal/cpu/vec"

var level = vec.CPU()

func kernelFor(stride int) (kernel func(*byte), lanes int) { return nil, 0 }
