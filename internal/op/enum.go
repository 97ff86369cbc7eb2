package op

import "fmt"

// EnumName returns the name of value n of the enumeration called of: for one
// that does not exist "of(n)", since printing it is how its cause is found.
func EnumName(of string, n int, names ...string) string {
	if n >= 0 && n < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s(%d)", of, n)
}
