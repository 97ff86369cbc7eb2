module github.com/locusml/locus

go 1.26
