//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package disk

// hold does nothing: age alone tells what is abandoned.
func hold(string) (release func(), ok bool) { return func() {}, true }

// abandoned reports whether nothing was written to path for long.
func abandoned(path string) (release func(), ok bool) { return func() {}, old(path) }
