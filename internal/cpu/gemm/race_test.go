//go:build race

package gemm

// raceEnabled thins out the tests, which the race detector makes slow.
const raceEnabled = true
