package locus

import (
	"runtime"
	"sync/atomic"

	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/memory"
)

// Scope frees a device's memory at a known moment, which the collector cannot.
// Whatever is computed from a tensor in a scope belongs to the same scope; when it
// closes, everything in it is freed except what was kept:
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
	group  *memory.Group // what is freed when s closes
	closed atomic.Bool
}

var scopes atomic.Int64

// NewScope opens a scope.
func NewScope() *Scope {
	s := &Scope{order: scopes.Add(1), group: memory.NewGroup()}
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

// Use returns a view of x whose results belong to s. x itself stays as it is.
func (s *Scope) Use(x *Tensor) *Tensor {
	s.made("Scope.Use")
	x.check("Scope.Use")
	v := x.alias()
	v.scope.Store(s)
	return v
}

// Adopt makes x's memory part of s, out of whatever scope it was in: it is freed
// when s closes. It returns x.
func (s *Scope) Adopt(x *Tensor) *Tensor {
	s.made("Scope.Adopt")
	x.check("Scope.Adopt")
	if !s.adopt(x) {
		failf("Scope.Adopt", ErrArgument, nil, "the scope is closed")
	}
	return x
}

// adopt reports false, and leaves x to the collector, if s is closed.
func (s *Scope) adopt(x *Tensor) bool {
	if !x.block.Leave() {
		x.block.Unmanage()
	}
	if !s.group.Add(x.block) {
		x.block.Manage()
		return false
	}
	x.scope.Store(s)
	return true
}

// Keep takes tensors out of whatever scope holds their memory, s or another one:
// it outlives them all, until Free or the collector, and what is computed from
// the tensors belongs to no scope. Of a view, the memory that it lies in is kept.
// It returns the first tensor.
func (s *Scope) Keep(x *Tensor, more ...*Tensor) *Tensor {
	s.made("Scope.Keep")
	x.keep("Scope.Keep")
	for _, t := range more {
		t.keep("Scope.Keep")
	}
	return x
}

func (t *Tensor) keep(name string) {
	t.check(name)
	if t.block.Leave() {
		t.block.Manage()
	}
	t.scope.Store(nil)
	if t.Freed() { // the scope closed meanwhile
		t.check(name)
	}
}

// Close frees everything that belongs to s. Closing twice does nothing. What
// another goroutine computes with at this moment stays whole until its op ends.
func (s *Scope) Close() {
	s.made("Scope.Close")
	if s.closed.Swap(true) {
		return
	}
	runtime.SetFinalizer(s, nil)
	s.group.Free()
}

// Len is the number of blocks of memory that s holds.
func (s *Scope) Len() int {
	s.made("Scope.Len")
	return s.group.Len()
}

// scopeOf returns the youngest open scope among the operands', or nil.
func scopeOf(in []*Tensor) *Scope {
	var youngest *Scope
	for _, t := range in {
		if s := t.scope.Load(); s != nil && !s.closed.Load() && (youngest == nil || s.order > youngest.order) {
			youngest = s
		}
	}
	return youngest
}

// Scope returns the open scope that results computed from t belong to, or nil.
func (t *Tensor) Scope() *Scope {
	t.made("Scope")
	return scopeOf([]*Tensor{t})
}

// beside puts a tensor that was just made into t's scope.
func (t *Tensor) beside(made *Tensor) *Tensor {
	if s := t.Scope(); s != nil {
		s.adopt(made) // if the scope closes at this moment, the collector frees it
	}
	return made
}
