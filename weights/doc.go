// Package weights keeps tensors in files: safetensors, and NumPy's npy and npz.
//
//	err := weights.Save("model.safetensors", map[string]*locus.Tensor{"w": w}, nil)
//
//	f, err := weights.Open("model.safetensors")
//	defer f.Close()
//	w, err := f.Load("w", gpu)
//
// Reading never runs code from a file, and checks every length before using it. On
// Unix files are mapped into memory, elsewhere one tensor at a time is read; writing
// goes through a buffer of a few megabytes. Either way there is no second copy of
// the whole, and a file does not remember the device that its tensors came from.
//
// A file whose content would take far more memory than the file does is refused
// (see [MaxUnpacked]), and so is anything but a regular file, such as a pipe.
//
// Files are replaced as a whole: [Save] writes a temporary file next to the target,
// flushes it, and renames it. A file that is there keeps its permissions, and a
// symbolic link stays one. A temporary file that a killed process left is removed by
// the next save in the folder. The same tensors and metadata yield the same bytes.
// Package weights/checkpoint builds on this.
package weights
