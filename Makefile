# Everything here is one command of Go's; this file only names them.
.PHONY: build test check site release

build: ## the command, in bin/
	CGO_ENABLED=0 go build -trimpath -o bin/locus ./cmd/locus

test:
	go test ./...

check: ## what a change must pass: the same as CI
	.ci/run

site: ## the guide as static pages, in site/
	go run ./docs/site -o site

release: ## archives for all platforms and checksums, in dist/: make release VERSION=v0.1.0
	go run ./scripts/release -version "$(VERSION)"
