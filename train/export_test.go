package train

// SmallBuckets lets every network's gradients be sent in several buckets.
func SmallBuckets() (restore func()) {
	old := minBucket
	minBucket = 16
	return func() { minBucket = old }
}
