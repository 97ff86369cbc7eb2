// Package weights keeps tensors in files: safetensors, and NumPy's npy and npz.
//
//	err := weights.Save("model.safetensors", map[string]*locus.Tensor{"w": w}, nil)
//
//	f, err := weights.Open("model.safetensors")
//	defer f.Close()
//	w, err := f.Load("w", gpu)
//
// Reading never runs code from a file and never believes a length before it
// has checked it. On Unix files are mapped into memory, elsewhere one
// tensor at a time is read; writing goes through a buffer of a few megabytes.
// Either way there is no second copy of the whole, and a file does not remember
// the device that its tensors came from.
//
// A file whose content would take far more memory than the file does is refused
// (see [MaxUnpacked]), and so is what is no file, such as a pipe.
//
// Files are replaced as a whole: [Save] writes beside the target, flushes, and
// renames. A file that is there keeps its permissions, and a symbolic link keeps
// leading to it. What a killed process left unfinished goes with the next save in
// the folder. The same tensors and metadata give the same bytes. Package
// checkpoint builds on this.
package weights
