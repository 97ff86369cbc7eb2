// Package docs holds the guide. Its tests run the Go code of every page.
package docs
