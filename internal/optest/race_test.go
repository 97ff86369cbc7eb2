//go:build race

package optest

const raceEnabled = true
