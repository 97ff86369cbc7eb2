//go:build !unix

package disk

// syncDir does nothing: where there is no way to flush a folder, the file
// system's journal keeps renames in order.
func syncDir(string) error { return nil }
