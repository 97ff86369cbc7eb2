//go:build race

package backendtest

// Under the race detector everything takes ten times as long, and what it can
// find is in the big samples and in the contract.
const thinning = 10
