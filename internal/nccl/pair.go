package nccl

// Pairs reports whether the library has messages between two ranks: from 2.7 on.
func (l *Library) Pairs() bool { return l.send != nil }

// Send queues a message, on rank 0 of a group of two: N elements of In.
func (c *Comm) Send(k *Call, stream uintptr) error {
	return c.check("ncclSend", c.lib.send(k.In, uint64(k.N), types[k.DType], 1, c.comm, stream))
}

// Recv queues a message, on rank 1: N elements to Out.
func (c *Comm) Recv(k *Call, stream uintptr) error {
	return c.check("ncclRecv", c.lib.recv(k.Out, uint64(k.N), types[k.DType], 0, c.comm, stream))
}
