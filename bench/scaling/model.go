package main

import "math"

// link is what joins two GPUs: how much each one sends per second in a collective that uses it
// well, and what a message costs beside that.
type link struct {
	bytes   float64 // per second, of one GPU, one direction
	latency float64 // seconds
}

// cluster is a number of equal servers.
type cluster struct {
	name            string
	gpus            int // per server
	inside, outside link
}

// ring is the time of an all-reduce in which each of n ranks sends 2(n-1) parts to the next.
func ring(bytes float64, n int, l link) float64 {
	if n == 1 {
		return 0
	}
	steps := 2 * float64(n-1)
	return steps * (bytes/float64(n)/l.bytes + l.latency)
}

// tree is the time of an all-reduce up and down two trees, each of which has half of the bytes,
// in pieces that follow each other.
func tree(bytes float64, n int, l link) float64 {
	if n == 1 {
		return 0
	}
	return 2*bytes/l.bytes + 2*math.Ceil(math.Log2(float64(n)))*l.latency
}

// allReduce is the time over n GPUs: a reduce-scatter inside each server, an all-reduce of each
// GPU's part between the servers, by a ring or by trees, whichever is faster, and an all-gather
// inside.
func (c cluster) allReduce(bytes float64, n int) float64 {
	g := min(n, c.gpus)
	servers := (n + c.gpus - 1) / c.gpus
	part := bytes / float64(g)
	return ring(bytes, g, c.inside) + min(ring(part, servers, c.outside), tree(part, servers, c.outside))
}

// work is a training step on one GPU.
type work struct {
	name      string
	step      float64 // seconds
	update    float64 // the part of it that follows the last gradient
	gradients float64 // bytes
}

// backward is the part of forward and backward that backward takes.
const backward = 2.0 / 3

// bucket is the size in which gradients are reduced; see train/buckets.go.
const bucket = 8 << 20

// time is that of a step over n GPUs, each with a batch of its own. Gradients become ready
// evenly while backward goes on; a bucket is reduced as soon as it is full and the one before it
// is done; the update follows the last. Collectives are taken to slow nothing else down.
func (w work) time(c cluster, n int) float64 {
	compute := w.step - w.update
	start, span := compute*(1-backward), compute*backward
	buckets := math.Ceil(w.gradients / bucket)
	done := 0.0
	for i := range int(buckets) {
		ready := start + span*float64(i+1)/buckets
		done = max(done, ready) + c.allReduce(w.gradients/buckets, n)
	}
	return max(done, compute) + w.update
}

// efficiency is what n GPUs do in a second, over n times what one does.
func (w work) efficiency(c cluster, n int) float64 { return w.step / w.time(c, n) }
