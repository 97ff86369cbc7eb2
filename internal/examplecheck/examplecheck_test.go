package examplecheck

import (
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	got, err := find("testdata/shapes", map[string]string{
		"Ring":          "it is a circle",
		"Box":           "needless",
		"Gone":          "it was deleted",
		"Options.Color": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Box is exempt from having an example, and has one: delete the exemption",
		"ExampleLine is not run: end it with an // Output: comment",
		"Gone is exempt from having an example, and is no exported function or option: delete the exemption",
		"Options.Color is exempt from having an example without a reason: write it down",
		"no Example uses Dot: write one, with an // Output: comment",
		"no Example uses Line: write one, with an // Output: comment",
		"no Example uses Options.Depth: write one, with an // Output: comment",
		"no Example uses Place.Z: write one, with an // Output: comment",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestFindNothing(t *testing.T) {
	if _, err := find(t.TempDir(), nil); err == nil {
		t.Error("a folder without Go files is not refused")
	}
}
