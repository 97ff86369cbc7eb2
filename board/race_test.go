//go:build race

package board

// The race detector makes encoding a picture ten to twenty times as slow.
const slowdown = 20
