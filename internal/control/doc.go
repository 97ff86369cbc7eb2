// Package control is how the ranks of a group find each other, stay in touch, and
// compare what they are about to do. It moves no tensors.
//
// Rank 0 runs a hub. Every rank, rank 0 too, has one connection to it, over which it
// announces each collective before it begins; the hub compares the announcements and
// tells everybody when they differ, when a rank dies, falls silent, fails or comes too
// late. So each rank knows why it stops, and nobody waits forever.
//
// A connection begins with a challenge: both sides prove that they know the group's
// token before anything else is read. What follows is frames with a type, a length and a
// limit.
package control
