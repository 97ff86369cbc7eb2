package locus

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/memory"
)

// Scope gives a device's memory back at a known moment, which the collector
// cannot. Whatever is computed from a tensor in a scope belongs to the same
// scope; when it closes, all of that is freed but what was kept:
//
//	s := locus.NewScope()
//	x := s.Use(batch)
//	loss := model(x)        // in s, with everything on the way to it
//	total = s.Keep(total.Add(loss))
//	s.Close()
//
// If operands belong to different scopes, the result belongs to the one that
// was opened last. Scopes may be used from several goroutines.
type Scope struct {
	order  int64
	mu     sync.Mutex
	blocks []*memory.Block
	closed atomic.Bool
}

var scopes atomic.Int64

// NewScope opens a scope.
func NewScope() *Scope {
	s := &Scope{order: scopes.Add(1), blocks: make([]*memory.Block, 0, 16)}
	// A scope that was forgotten ends when neither it nor its tensors can be reached.
	runtime.SetFinalizer(s, (*Scope).Close)
	return s
}

// Scoped runs f with a new scope and closes it afterwards, also when f panics.
func Scoped(f func(s *Scope)) {
	gate.Check("Scoped", gate.Given("the function", f))
	s := NewScope()
	defer s.Close()
	f(s)
}

// Use gives a view of x whose results belong to s. x itself stays as it is.
func (s *Scope) Use(x *Tensor) *Tensor {
	s.made("Scope.Use")
	x.check("Scope.Use")
	v := x.alias()
	v.scope.Store(s)
	return v
}

// Adopt makes s the owner of x: its memory is freed when s closes. It returns x.
func (s *Scope) Adopt(x *Tensor) *Tensor {
	s.made("Scope.Adopt")
	x.check("Scope.Adopt")
	old := x.scope.Load()
	if old == s {
		return x
	}
	if old != nil {
		old.drop(x.block)
	} else {
		x.block.Unmanage()
	}
	if !s.add(x.block) {
		x.block.Manage()
		failf("Scope.Adopt", ErrArgument, nil, "the scope is closed")
	}
	x.scope.Store(s)
	return x
}

// Keep takes tensors out of s: their memory outlives it, and what is computed
// from them belongs to no scope. It returns the first of them.
func (s *Scope) Keep(x *Tensor, more ...*Tensor) *Tensor {
	s.made("Scope.Keep")
	for _, t := range append([]*Tensor{x}, more...) {
		t.check("Scope.Keep")
		if s.drop(t.block) {
			t.block.Manage()
		}
		t.scope.CompareAndSwap(s, nil)
	}
	return x
}

// Close frees everything that belongs to s. Closing twice does nothing.
func (s *Scope) Close() {
	s.made("Scope.Close")
	if s.closed.Swap(true) {
		return
	}
	runtime.SetFinalizer(s, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		b.Free()
	}
	s.blocks = nil
}

// Len is the number of blocks of memory that s holds.
func (s *Scope) Len() int {
	s.made("Scope.Len")
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// add makes s the owner of b; it reports false if s is closed.
func (s *Scope) add(b *memory.Block) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == nil {
		return false
	}
	s.blocks = append(s.blocks, b)
	return true
}

func (s *Scope) drop(b *memory.Block) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.blocks) - 1; i >= 0; i-- { // what is kept was mostly made last
		if s.blocks[i] == b {
			s.blocks = slices.Delete(s.blocks, i, i+1)
			return true
		}
	}
	return false
}

// scopeOf gives the youngest open scope among the operands', or nil.
func scopeOf(in []*Tensor) *Scope {
	var youngest *Scope
	for _, t := range in {
		if s := t.scope.Load(); s != nil && !s.closed.Load() && (youngest == nil || s.order > youngest.order) {
			youngest = s
		}
	}
	return youngest
}

// Scope gives the open scope that results computed from t belong to, or nil.
func (t *Tensor) Scope() *Scope {
	t.made("Scope")
	return scopeOf([]*Tensor{t})
}
