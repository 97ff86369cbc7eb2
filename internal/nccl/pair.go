package nccl

import "unsafe"

// config is what NCCL takes from 2.17 on; a later one fills in what has been added.
type config struct {
	size                                uintptr
	magic, version                      uint32
	blocking, cluster, minCTAs, maxCTAs int32
	network                             uintptr
}

const (
	configMagic = 0xcafebeef
	configOf    = 21700
	unset       = -1 << 31
)

// pairBlocks is the most thread blocks that a message runs with. Each takes nearly a whole
// multiprocessor until the other side has come, so that messages to and from many ranks at a
// time must not fill the card: none of them would end. NCCL_MAX_CTAS changes it.
const pairBlocks = 8

// Pairs reports whether the library has messages between two ranks: from 2.14 on.
func (l *Library) Pairs() bool { return l.initPair != nil }

// InitPair makes a rank's part in a group of two, in which rank 0 sends to rank 1. Both call
// it at the same time; it waits for the other.
func (l *Library) InitPair(unique []byte, receives bool) (*Comm, error) {
	rank := 0
	if receives {
		rank = 1
	}
	c := &config{magic: configMagic, version: configOf, blocking: unset, cluster: unset, minCTAs: unset, maxCTAs: pairBlocks}
	c.size = unsafe.Sizeof(*c)
	return l.open("ncclCommInitRankConfig", unique, rank, 2, func(comm *uintptr, i id) int32 { return l.initPair(comm, 2, i, int32(rank), c) })
}

// Send queues a message of a pair, on the rank that sends: n elements from an address on.
func (c *Comm) Send(k *Call, stream uintptr) error {
	return c.check("ncclSend", c.lib.send(k.In, uint64(k.N), types[k.DType], 1, c.comm, stream))
}

// Recv queues a message of a pair, on the rank that receives.
func (c *Comm) Recv(k *Call, stream uintptr) error {
	return c.check("ncclRecv", c.lib.recv(k.Out, uint64(k.N), types[k.DType], 0, c.comm, stream))
}
