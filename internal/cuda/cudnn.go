//go:build linux && (amd64 || arm64) && !nocuda

package cuda

type dnn struct{}
