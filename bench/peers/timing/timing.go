// Package timing repeats what a peer does as bench/cpu repeats what Locus does,
// and prints the same JSON.
package timing

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Main runs the case that the flags name. A case prepares its data and returns
// what is timed. modules are those whose versions are of interest. The number of
// threads is that of GOMAXPROCS, which is all that the peers heed.
func Main(cases map[string]func() func(), modules ...string) {
	name := flag.String("case", "", "which case; without it, all are listed")
	seconds := flag.Float64("seconds", 1, "how long to repeat")
	flag.Parse()
	prepare, ok := cases[*name]
	if !ok {
		var versions []string
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, d := range info.Deps {
				if slices.Contains(modules, d.Path) {
					versions = append(versions, d.Path+" "+d.Version)
				}
			}
		}
		json.NewEncoder(os.Stdout).Encode(map[string]any{"cases": slices.Sorted(maps.Keys(cases)), "versions": versions})
		if *name != "" {
			fmt.Fprintln(os.Stderr, "no such case; there are", strings.Join(slices.Sorted(maps.Keys(cases)), " "))
			os.Exit(2)
		}
		return
	}
	f := prepare()
	var times []float64
	for start := time.Now(); time.Since(start).Seconds() < *seconds || len(times) < 3; {
		t := time.Now()
		f()
		times = append(times, time.Since(t).Seconds())
	}
	times = times[len(times)/5:] // warm-up
	slices.Sort(times)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"case": *name, "seconds": times[len(times)/2], "repetitions": len(times)})
}

// Normal makes n random numbers.
func Normal(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// Labels makes n random classes.
func Labels(n, classes int) []int32 {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.IntN(classes))
	}
	return x
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
