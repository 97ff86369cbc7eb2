//go:build !unix

package main

import "log"

func small() { log.Fatal("turns: small needs Unix, whose processes know how long they have computed") }
