package locus

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

// TransferKind tells copies and waits apart.
type TransferKind uint8

// The kinds of transfer.
const (
	HostToDevice   TransferKind = iota // from main memory to a GPU
	DeviceToHost                       // from a GPU to main memory; waits for the GPU
	DeviceToDevice                     // from one GPU to another
	Wait                               // the program waits for a GPU
	numTransferKinds
)

// String returns "host to device" and so on.
func (k TransferKind) String() string {
	return op.EnumName("TransferKind", int(k), "host to device", "device to host", "device to device", "wait")
}

// GuardLevel says what a guarded transfer does.
type GuardLevel uint8

// The levels.
const (
	Allow    GuardLevel = iota // only count it
	Log                        // count it and print a line to standard error
	Disallow                   // panic with an ErrTransfer
)

// String returns the level's name.
func (l GuardLevel) String() string {
	return op.EnumName("GuardLevel", int(l), "allow", "log", "disallow")
}

var guards [numTransferKinds]atomic.Uint32

// Guard sets what happens at transfers of the given kinds, or of all kinds if none is
// named, in the whole program. It returns a function that restores the previous
// setting:
//
//	defer locus.Guard(locus.Disallow, locus.DeviceToHost)()
func Guard(level GuardLevel, kinds ...TransferKind) (restore func()) {
	if level > Disallow {
		failf("Guard", ErrArgument, nil, "unknown level %d", level)
	}
	if len(kinds) == 0 {
		kinds = []TransferKind{HostToDevice, DeviceToHost, DeviceToDevice, Wait}
	}
	var old [numTransferKinds]uint32
	for _, k := range kinds {
		if k >= numTransferKinds {
			failf("Guard", ErrArgument, nil, "unknown kind of transfer %d", k)
		}
		old[k] = guards[k].Swap(uint32(level))
	}
	return func() {
		for _, k := range kinds {
			guards[k].Store(old[k])
		}
	}
}

// LedgerEntry sums up the transfers of one kind between two devices from one
// line of the program.
type LedgerEntry struct {
	Kind     TransferKind
	From, To Device
	Site     string // file:line
	Count    int64
	Bytes    int64
	Time     time.Duration // spent by the program in the call
}

type ledgerKey struct {
	kind     TransferKind
	from, to Device
	site     callsite.Site
}

var ledger struct {
	mu      sync.Mutex
	entries map[ledgerKey]*LedgerEntry
}

// Transfers is a list of ledger entries.
type Transfers []LedgerEntry

// Ledger returns every copy and every wait between the program and its GPUs, and
// between GPUs, since the start or [ResetLedger]: most bytes first. Work on the CPU
// alone is not a transfer.
func Ledger() Transfers {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	merged := map[LedgerEntry]*LedgerEntry{} // different paths through one line
	var l Transfers
	for k, e := range ledger.entries {
		key := LedgerEntry{Kind: k.kind, From: k.from, To: k.to, Site: k.site.String()}
		m := merged[key]
		if m == nil {
			m = new(LedgerEntry)
			*m = key
			merged[key] = m
		}
		m.Count += e.Count
		m.Bytes += e.Bytes
		m.Time += e.Time
	}
	for _, m := range merged {
		l = append(l, *m)
	}
	slices.SortFunc(l, func(a, b LedgerEntry) int {
		if a.Bytes != b.Bytes {
			return int(max(min(b.Bytes-a.Bytes, 1), -1))
		}
		return strings.Compare(a.Site, b.Site)
	})
	return l
}

// ResetLedger forgets all entries.
func ResetLedger() {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	ledger.entries = nil
}

// Count is the number of transfers of the given kinds, of all kinds if none is
// named.
func (t Transfers) Count(kinds ...TransferKind) int64 {
	var n int64
	for _, e := range t {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			n += e.Count
		}
	}
	return n
}

// Bytes is the number of bytes copied by transfers of the given kinds, of all
// kinds if none is named.
func (t Transfers) Bytes(kinds ...TransferKind) int64 {
	var n int64
	for _, e := range t {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			n += e.Bytes
		}
	}
	return n
}

// String returns a table.
func (t Transfers) String() string {
	if len(t) == 0 {
		return "no transfers\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %-6s %-6s %8s %11s %12s  %s\n", "kind", "from", "to", "count", "bytes", "time", "where")
	for _, e := range t {
		fmt.Fprintf(&b, "%-16s %-6s %-6s %8d %11s %12s  %s\n", e.Kind, e.From, e.To, e.Count, units.Bytes(e.Bytes), e.Time.Round(time.Microsecond), e.Site)
	}
	return b.String()
}

// transfer is the one place through which every copy and every wait goes: it
// asks the guard, runs do and writes the ledger.
func transfer(kind TransferKind, from, to *place, bytes int, do func()) {
	if from.host && to.host || from.of != nil || to.of != nil { // in a trace nothing moves
		do()
		return
	}
	transferAt(callsite.Here(1), kind, from, to, bytes, do)
}

// transferAt is transfer between two devices for a line of the program.
func transferAt(site callsite.Site, kind TransferKind, from, to *place, bytes int, do func()) {
	switch GuardLevel(guards[kind].Load()) {
	case Log:
		fmt.Fprintf(os.Stderr, "locus: %s, %s to %s, %s at %s\n", kind, from.device, to.device, units.Bytes(bytes), site)
	case Disallow:
		fail("", &op.Problem{Kind: ErrTransfer,
			Msg: fmt.Sprintf("%s of %s from %s to %s at %s is disallowed", kind, units.Bytes(bytes), from.device, to.device, site),
			Fix: "keep the data where it is, or allow it: locus.Guard(locus.Allow)"})
	}
	start := time.Now()
	do()
	spent := time.Since(start)
	if p := profiling.Load(); p != nil {
		p.moved(kind, from.device, to.device, bytes, site, start, spent)
	}

	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	key := ledgerKey{kind, from.device, to.device, site}
	e := ledger.entries[key]
	if e == nil {
		if ledger.entries == nil {
			ledger.entries = map[ledgerKey]*LedgerEntry{}
		}
		e = &LedgerEntry{}
		ledger.entries[key] = e
	}
	e.Count++
	e.Bytes += int64(bytes)
	e.Time += spent
}

// An op that a GPU computes in main memory, because a library is missing, is one copy
// from the device and back: the ledger notes it by the bytes of its operands and
// results.
func init() {
	backend.NoteDetours(func(d backend.Device, c *backend.Call, run func() error) (err error) {
		for _, p := range gpus() {
			if p.backend != d {
				continue
			}
			bytes := c.Out.Elements() * c.Out.DType.Size()
			for i := range c.In {
				bytes += c.In[i].Elements() * c.In[i].DType.Size()
			}
			// What the guard says is returned, not thrown: the caller holds memory.
			if refused := Try(func() { transfer(DeviceToHost, p, machine.cpu, bytes, func() { err = run() }) }); refused != nil {
				return refused
			}
			return err
		}
		return run()
	})
}
