//go:build !race

package board

const slowdown = 1
