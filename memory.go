package locus

import (
	"fmt"
	"strings"
	"time"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/units"
)

// MemoryStats are a device's memory counters.
type MemoryStats struct {
	Device      Device
	InUse       int64         // bytes that tensors hold now, and ops as workspace while they are queued
	Peak        int64         // largest InUse since the start or ResetPeak
	Cached      int64         // bytes kept for reuse
	Allocations int64         // blocks handed out
	Frees       int64         // blocks freed
	OutOfMemory int64         // requests that failed
	Collections int64         // garbage collections the allocator asked for
	Waited      time.Duration // for collections, by the program
	Total, Free int64         // the device's memory; 0 where unknown

	// Page-locked main memory ([Tensor.Pin]), of which only the CPU has any, and
	// which is not counted above.
	Pinned PinnedStats
}

// PinnedStats are the counters of page-locked memory, in bytes.
type PinnedStats struct {
	InUse  int64 // held by tensors now
	Peak   int64 // largest InUse since the start or ResetPeak
	Cached int64 // kept for reuse
}

// MemoryStats returns the device's memory counters; the same on every device.
func (d Device) MemoryStats() MemoryStats {
	p := d.open("MemoryStats")
	s := p.pool.Stats()
	total, free := p.backend.Memory()
	stats := MemoryStats{Device: d, InUse: s.InUse, Peak: s.Peak, Cached: s.Cached, Allocations: s.Allocations, Frees: s.Frees,
		OutOfMemory: s.OutOfMemory, Collections: s.Collections, Waited: s.Waited, Total: total, Free: free}
	if pool := pinned.Load(); p.host && pool != nil {
		s := pool.Stats()
		stats.Pinned = PinnedStats{s.InUse, s.Peak, s.Cached}
	}
	return stats
}

// pools are those that a device's memory comes from.
func (p *place) pools() []*memory.Pool {
	if pool := pinned.Load(); p.host && pool != nil {
		return []*memory.Pool{p.pool, pool}
	}
	return []*memory.Pool{p.pool}
}

// ResetPeak makes the memory in use now the new peak.
func (d Device) ResetPeak() {
	for _, pool := range d.open("ResetPeak").pools() {
		pool.ResetPeak()
	}
}

// FreeCache returns memory that is kept for reuse to the device.
func (d Device) FreeCache() {
	for _, pool := range d.open("FreeCache").pools() {
		pool.Trim()
	}
}

// Collect runs the garbage collector and frees the tensors that it finds
// unreachable. It happens by itself when memory runs short.
func (d Device) Collect() {
	for _, pool := range d.open("Collect").pools() {
		pool.Collect()
	}
}

// String returns one line.
func (s MemoryStats) String() string {
	line := fmt.Sprintf("%s: %s in use, peak %s, %s cached, %d allocations, %d frees, %d out of memory",
		s.Device, units.Bytes(s.InUse), units.Bytes(s.Peak), units.Bytes(s.Cached), s.Allocations, s.Frees, s.OutOfMemory)
	if p := s.Pinned; p.Peak > 0 {
		line += fmt.Sprintf("; page-locked: %s in use, peak %s, %s cached", units.Bytes(p.InUse), units.Bytes(p.Peak), units.Bytes(p.Cached))
	}
	return line
}

// MemoryReport is what an out-of-memory [Error] says.
type MemoryReport struct {
	Device        Device
	Asked         int64 // bytes
	Total, Free   int64 // of the device, after everything was tried
	InUse, Cached int64
	Largest       []MemoryHolder // the largest live tensors
}

// MemoryHolder is one live tensor in a [MemoryReport], or with the DType "workspace"
// the working memory of an op.
type MemoryHolder struct {
	DType, Shape string
	Bytes        int64
	MadeAt       string // file:line; "" for a workspace
}

func reportOf(e *memory.Exhausted) *MemoryReport {
	r := &MemoryReport{Asked: e.Asked, Total: e.Total, Free: e.Free, InUse: e.InUse, Cached: e.Cached}
	for _, h := range e.Largest {
		r.Largest = append(r.Largest, MemoryHolder{h.Label.DType, h.Label.Shape, h.Bytes, h.Site})
	}
	return r
}

// String returns a few indented lines.
func (r *MemoryReport) String() string {
	if r == nil {
		return "<nil report>"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s: %s in all, %s free, %s in use by tensors, %s cached", r.Device, units.Bytes(r.Total), units.Bytes(r.Free), units.Bytes(r.InUse), units.Bytes(r.Cached))
	for i, h := range r.Largest {
		if i == 0 {
			b.WriteString("\n  largest live tensors:")
		}
		fmt.Fprintf(&b, "\n    %-10s %s %s", units.Bytes(h.Bytes), h.DType, h.Shape)
		if h.MadeAt != "" {
			b.WriteString(", made at " + h.MadeAt)
		}
	}
	return b.String()
}
