// Package notebooks holds notebooks for Jupyter with the GoNB kernel. Its tests
// compile and run their cells, without Jupyter, and with it where it is installed.
package notebooks
