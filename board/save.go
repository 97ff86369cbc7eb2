package board

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// Save writes the curves to a picture file; its name ends in .svg or .png. The folder is made if need be. The file is
// written whole or not at all, so a picture of the same name can be shown while a run saves it again and again.
func (b *Board) Save(path string) error {
	gate.Receiver("board.Board.Save", b != nil, "use new(board.Board)")
	return save(path, b.WriteSVG, b.WritePNG)
}

// save writes a picture in the format that the file's name asks for.
func save(path string, svg, png func(io.Writer) error) (err error) {
	var write func(io.Writer) error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		write = svg
	case ".png":
		write = png
	default:
		return fmt.Errorf("board: save %s: the name must end in .svg or .png", path)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("board: save %s: %w", path, unwrapPath(err))
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("is a folder: give the name of a file")
	}
	return disk.WriteFile(disk.OS, path, write)
}
