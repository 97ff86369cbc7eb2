//go:build ignore

// This program packs the UCI handwritten digits into digits.gz:
//
//	go run digits_gen.go digits.csv.gz
//
// where digits.csv.gz is the file of that name in scikit-learn's wheel
// (sklearn/datasets/data), a copy of the test part of the UCI data set "Optical
// Recognition of Handwritten Digits". The result is 65 bytes per example, the
// label and 64 pixels of 0 to 16, compressed.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"log"
	"os"
	"strconv"
)

func main() {
	in, err := os.Open(os.Args[1])
	check(err)
	z, err := gzip.NewReader(in)
	check(err)
	rows, err := csv.NewReader(z).ReadAll()
	check(err)
	// By position, not by example: what changes little lies together.
	columns := make([]bytes.Buffer, 65)
	for _, row := range rows {
		for i, cell := range row {
			v, err := strconv.ParseFloat(cell, 64)
			check(err)
			columns[(i+1)%65].WriteByte(byte(v)) // the label, which is last, comes first
		}
	}
	out, err := os.Create("digits.gz")
	check(err)
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	check(err)
	for i := range columns {
		_, err = w.Write(columns[i].Bytes())
		check(err)
	}
	check(w.Close())
	check(out.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
