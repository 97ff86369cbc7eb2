package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestRun(t *testing.T) {
	for _, d := range append(locus.AddVirtualGPUs(1, 64<<20), locus.CPU()) {
		var b strings.Builder
		if err := run(&b, d); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			`weight \[ ?(2\.00|1\.99)\d* -3\.(40|39)\d*\] float32 \(2,\) on ` + d.String(),
			`bias +\[4\.(20|19)\d*\] float32 \(1,\) on ` + d.String(),
		} {
			if !regexp.MustCompile(part).MatchString(b.String()) {
				t.Errorf("%s does not match\n%s", part, b.String())
			}
		}
	}
}
