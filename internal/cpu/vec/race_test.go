//go:build race

package vec

// raceEnabled thins out the tests, which the race detector makes slow.
const raceEnabled = true
