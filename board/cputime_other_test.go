//go:build !unix

package board

import "time"

var started = time.Now()

func cpuTime() time.Duration { return time.Since(started) }
