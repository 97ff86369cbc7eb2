package memory

// Working memory of ops comes from the pool, as tensors' memory does. It is lent
// while an op is queued and taken back behind it: memory is reused in stream order,
// so the op need not have run. Lending makes no garbage, because queueing must not.

// loan is working memory that is out, for the report.
type loan struct {
	region Region
	label  Label
}

// Pool is where the block's memory comes from.
func (b *Block) Pool() *Pool { return b.pool }

// lendMin is the least that is lent: small requests of all kinds share what is
// cached, and what is lent is aligned as the source's memory is.
const lendMin = slabSize

// LendCached returns working memory of at least size bytes if some is cached. It
// never calls the source, so that a device may ask while something is being queued.
func (p *Pool) LendCached(size int, label Label) (Region, bool) {
	want := class(max(size, lendMin))
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.cached(want)
	if ok {
		p.lend(r, label)
	}
	return r, ok
}

// Lend returns working memory of at least size bytes until Return. It does what
// Allocate does where there is no room.
func (p *Pool) Lend(size int, label Label) (Region, error) {
	r, err := p.region(class(max(size, lendMin)), func() Label { return label })
	if err != nil {
		return Region{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lend(r, label)
	return r, nil
}

// lend counts a loan; p.mu is held.
func (p *Pool) lend(r Region, label Label) {
	p.took(int64(r.Size))
	if r.Size >= recordMin {
		p.lent = append(p.lent, loan{r, label})
	}
}

// Return takes back what was lent. What uses it next is queued behind what used it
// last.
func (p *Pool) Return(r Region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeBack(r)
	p.cache(r)
}

// takeBack counts the end of a loan; p.mu is held.
func (p *Pool) takeBack(r Region) {
	p.stats.Frees++
	p.stats.InUse -= int64(r.Size)
	for i := len(p.lent) - 1; i >= 0; i-- {
		if p.lent[i].region == r {
			last := len(p.lent) - 1
			p.lent[i] = p.lent[last]
			p.lent = p.lent[:last]
			break
		}
	}
}
