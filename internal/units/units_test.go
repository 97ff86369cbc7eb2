package units

import "testing"

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", -5: "-5 B", 1023: "1023 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 100<<20 + 5: "100 MiB", 1<<30 - 1: "1024 MiB",
		20 << 30: "20 GiB", 143156 << 20: "139.8 GiB", 5 << 40: "5 TiB", 1 << 62: "4194304 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
