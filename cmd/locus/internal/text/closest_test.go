package text

import "testing"

func TestClosest(t *testing.T) {
	words := []string{"train", "predict", "inspect", "devices", "fashion-mnist", "mnist"}
	for s, want := range map[string]string{"trian": "train", "trai": "train", "predcit": "predict", "device": "devices", "fashon-mnist": "fashion-mnist", "minst": "mnist",
		"x": "", "": "", "banana": "", "tour": ""} {
		if got := Closest(s, words); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
