//go:build !unix

package weights

import "github.com/locusml/locus/internal/disk"

func openSource(path string) (source, error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &plain{file, info.Size(), file.Close}, nil
}
