package callsite

import (
	"fmt"
	"strings"
	"testing"
)

type printed struct{ at *Site }

func (p printed) String() string {
	*p.at = Here(0)
	return ""
}

func TestSitesNameTheCaller(t *testing.T) {
	if s := Here(0).String(); !strings.HasPrefix(s, "callsite/callsite_test.go:") {
		t.Error(s)
	}
	var at Site
	_ = fmt.Sprint(printed{&at})
	if s := at.String(); !strings.HasPrefix(s, "callsite/callsite_test.go:") {
		t.Error(s)
	}
	if s := (Site{}).String(); s != "unknown" {
		t.Error(s)
	}
}
