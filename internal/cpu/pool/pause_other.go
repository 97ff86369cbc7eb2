//go:build !amd64 && !arm64

package pool

// pause burns a few cycles; other architectures have no portable spin hint.
func pause(n uint32) {
	for ; n > 0; n-- {
	}
}
