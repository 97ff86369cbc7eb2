//go:build !race

package backendtest

// thinning: one in so many small samples is tried, and four times as many big ones.
const thinning = 1
