// Package house holds tests of the house rules that a program can check: the rooms
// that CONTRIBUTING.md lists, the names in the documentation, the spelling.
package house
