package agree_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/agree"
)

func TestAgree(t *testing.T) {
	groups, err := collective.Local([]locus.Device{locus.CPU(), locus.CPU(), locus.CPU()})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() {
			if v, err := agree.Max(t.Context(), g, int64(-i)); v != 0 || err != nil {
				t.Error(v, err)
			}
			if b, err := agree.Bytes(t.Context(), g, []byte(strings.Repeat("x", i))); fmt.Sprintf("%q", b) != `["" "x" "xx"]` || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			if b, err := agree.Bytes(t.Context(), g, nil); len(b) != 3 || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			if l, err := agree.All(t.Context(), g, map[string]int{"rank": i}); fmt.Sprint(l) != "[map[rank:0] map[rank:1] map[rank:2]]" || err != nil {
				t.Error(l, err)
			}
		})
	}
	wg.Wait()
}
