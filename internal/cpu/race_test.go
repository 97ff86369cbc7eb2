//go:build race

package cpu

// raceEnabled thins out the tests, which the race detector makes slow.
const raceEnabled = true
