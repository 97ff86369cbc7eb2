//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.UpdateAll] = (*Device).runUpdateAll
	runners[op.GlobalNorm] = (*Device).runGlobalNorm
	runners[op.ScaleAll] = (*Device).runScaleAll
	runners[op.CastAll] = (*Device).runCastAll
}

// listWords is LIST_WORDS of kernels/lists.cu, listRounds ROUNDS.
const (
	listWords  = 480
	listRounds = 4
)

// list is List of kernels/lists.cu: the tensors of one launch. It lies in the launch's
// parameters, so that nothing has to be copied to the card first, and names as many
// tensors as fit: dozens to hundreds.
type list struct {
	count, each uint32
	words       [listWords]uint64
}

// The first word of a tensor: the number of its elements below bit 40, the number of
// its first block from there on.
const (
	listShift  = 40
	listBlocks = 1 << (64 - listShift)
)

// reset makes l a list of tensors with so many addresses.
func (l *list) reset(addresses int) { l.count, l.each = 0, uint32(1+addresses) }

// add puts a tensor of n elements, of which a block takes so many, behind those that
// make up blocks, and returns with them how many blocks there are. It reports false if
// it does not fit.
func (l *list) add(blocks, n, perBlock int, addresses ...uintptr) (int, bool) {
	at := int(l.count * l.each)
	more := ceil(n, perBlock)
	if at+int(l.each) > listWords || blocks > 0 && blocks+more > listBlocks {
		return blocks, false
	}
	l.words[at] = uint64(n) | uint64(blocks)<<listShift
	for i, a := range addresses {
		l.words[at+1+i] = uint64(a)
	}
	l.count++
	return blocks + more, true
}

// updateParams is Update of kernels/lists.cu.
type updateParams struct {
	rate, keep, decay, momentum, fresh, beta, root, eps, start float64
	factor, ok                                                 uintptr
	first, nesterov, inPlace, slots                            int32
	at                                                         [3]int32
	_                                                          int32
	l                                                          list
}

// listParams are the others' parameters: Squares and Map of kernels/lists.cu. address
// is where partial sums go or where the factor is.
type listParams struct {
	address uintptr
	l       list
}

type rootParams struct {
	partial, out uintptr
	n            uint64
}

// perBlock is the number of elements that a block takes, v of them at a time.
func perBlock(v int) int { return blockThreads * listRounds * v }

// resultOf is result i of a call.
func resultOf(c *backend.Call, i int) *backend.View {
	if i == 0 {
		return &c.Out
	}
	return &c.More[i-1]
}

// inRows returns the call's operands, with copies of those that do not lie in order.
func (d *Device) inRows(c *backend.Call) ([]backend.View, error) {
	in := c.In
	var gaps []*backend.View
	for i := range in {
		if !in[i].Contiguous() {
			if gaps == nil { // the caller's list stays as it is: the op may be queued again
				in = append([]backend.View(nil), in...)
			}
			gaps = append(gaps, &in[i])
		}
	}
	if gaps == nil {
		return in, nil
	}
	return in, d.inOrder(gaps, func(v *backend.View) bool { return v.Contiguous() })
}

// perLaunch queues a kernel for tensors 0 to n-1, as many at a time as fit. fill puts
// tensor i into the list behind so many blocks, as add does; a tensor that it leaves
// out is one with no blocks of its own. launch queues what is in the list.
func perLaunch(l *list, addresses, n int, fill func(i, blocks int) (int, bool), launch func(blocks int) error) error {
	l.reset(addresses)
	blocks := 0
	for i := 0; i < n; {
		more, ok := fill(i, blocks)
		if ok {
			blocks = more
			i++
			continue
		}
		if err := launch(blocks); err != nil {
			return err
		}
		l.reset(addresses)
		blocks = 0
	}
	if blocks == 0 {
		return nil
	}
	return launch(blocks)
}

func (d *Device) runUpdateAll(c *backend.Call) error {
	u, t := c.Attrs.(op.Update), c.Out.DType
	in, err := d.inRows(c)
	if err != nil {
		return err
	}
	k, err := d.kernel("lists", "update_"+u.Rule.String()+"_"+typeName(t))
	if err != nil {
		return err
	}
	p := paramsOf[updateParams](d, k)
	p.numbers(u)
	p.first, p.nesterov, p.slots, p.at = asInt(u.First), asInt(u.Nesterov), int32(u.Slots()), slotsAt(u)
	extra := in[len(in)-u.Extra():]
	p.factor, p.ok = 0, 0
	if u.Scaled {
		p.factor = addr(&extra[0])
	}
	if u.Gated {
		p.ok = addr(&extra[len(extra)-1])
	}
	each, results := u.Each(), 1+u.Slots()
	params := (len(in) - len(extra)) / each
	var addresses [2 + 2*maxSlots + 1]uintptr
	// Steps in place have fewer addresses, and more of them fit into a launch.
	launched, elsewhere := false, false
	for _, inPlace := range []bool{true, false} {
		if !inPlace && !elsewhere {
			break
		}
		words := each
		if p.inPlace = asInt(inPlace); !inPlace {
			words += results
		}
		err := perLaunch(&p.l, words, params, func(i, blocks int) (int, bool) {
			x := in[i*each:][:each]
			n := x[0].Elements()
			if n == 0 {
				return blocks, true
			}
			if replaces(c, x, i*results, u) != inPlace {
				elsewhere = true
				return blocks, true
			}
			a := addresses[:0]
			for k := range x {
				a = append(a, addr(&x[k]))
			}
			for k := 0; !inPlace && k < results; k++ {
				a = append(a, resultOf(c, i*results+k).Block.Addr)
			}
			return p.l.add(blocks, n, perBlock(lanes(t)), a...)
		}, func(blocks int) error {
			err := d.launch(k, grid{x: blocks, threads: blockThreads})
			if err != nil && launched {
				// Other ops are queued again from their start where memory was short. This one
				// must not be: what has been queued would be done twice.
				return fmt.Errorf("of an optimizer's step only a part was queued: %v", err)
			}
			launched = true
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// numbers fills in what may change from one step to the next.
func (p *updateParams) numbers(u op.Update) {
	p.rate, p.keep, p.decay, p.momentum, p.fresh, p.beta, p.root, p.eps, p.start = u.Rate, u.Keep, u.Decay, u.Momentum, u.Fresh, u.Beta, u.Root, u.Eps, u.Start
}

// onlyNumbers reports whether two steps differ in nothing but numbers.
func onlyNumbers(a, b op.Attrs) bool {
	u, ok := a.(op.Update)
	v, also := b.(op.Update)
	if !ok || !also || u.Slots() != v.Slots() {
		return false
	}
	bare := func(u op.Update) op.Update {
		return op.Update{Rule: u.Rule, First: u.First, Scaled: u.Scaled, Gated: u.Gated, Nesterov: u.Nesterov, Centered: u.Centered}
	}
	return bare(u) == bare(v)
}

// maxSlots is the largest number of tensors that a rule remembers.
const maxSlots = 3

// slotsAt is where the things that a rule may remember are among the slots, in the
// order in which step of kernels/lists.cu knows them; -1: it does not remember it.
func slotsAt(u op.Update) [3]int32 {
	at := [3]int32{-1, -1, -1}
	switch u.Rule {
	case op.RMSPropRule:
		at[0] = 0
		if u.Centered {
			at[1] = 1
		}
		if u.Momentum != 0 {
			at[2] = int32(u.Slots() - 1)
		}
	default:
		for k := range u.Slots() {
			at[k] = int32(k)
		}
	}
	return at
}

// replaces reports whether all results of a parameter, from number first on, lie where
// the operands x lie that they replace.
func replaces(c *backend.Call, x []backend.View, first int, u op.Update) bool {
	if u.First && u.Slots() > 0 || resultOf(c, first).Block.Addr != addr(&x[0]) {
		return false
	}
	for k := range u.Slots() {
		if resultOf(c, first+1+k).Block.Addr != addr(&x[2+k]) {
			return false
		}
	}
	return true
}

func asInt(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func (d *Device) runGlobalNorm(c *backend.Call) error {
	in, err := d.inRows(c)
	if err != nil {
		return err
	}
	t := c.In[0].DType
	each := perBlock(lanes(t))
	total := 0
	for i := range in {
		total += ceil(in[i].Elements(), each)
	}
	partial, err := d.workspace(8 * max(1, total))
	if err != nil {
		return err
	}
	k, err := d.kernel("lists", "squares_"+typeName(t))
	if err != nil {
		return err
	}
	p := paramsOf[listParams](d, k)
	p.address = partial
	err = perLaunch(&p.l, 1, len(in), func(i, blocks int) (int, bool) {
		n := in[i].Elements()
		if n == 0 {
			return blocks, true
		}
		return p.l.add(blocks, n, each, addr(&in[i]))
	}, func(blocks int) error {
		err := d.launch(k, grid{x: blocks, threads: blockThreads})
		p.address += uintptr(8 * blocks)
		return err
	})
	if err != nil {
		return err
	}
	return runKernel(d, "lists", "root_"+typeName(c.Out.DType), &rootParams{partial, c.Out.Block.Addr, uint64(total)}, grid{x: 1, threads: 1024})
}

func (d *Device) runScaleAll(c *backend.Call) error {
	in, err := d.inRows(c)
	if err != nil {
		return err
	}
	n := len(in) - 1
	return d.mapAll(c, in[:n], c.Out.DType, addr(&in[n]))
}

func (d *Device) runCastAll(c *backend.Call) error {
	c, err := d.turnAll(c)
	if err != nil || len(c.In) == 0 {
		return err
	}
	in, err := d.inRows(c)
	if err != nil {
		return err
	}
	return d.mapAll(c, in, c.Out.DType, 0)
}

// TURN_TILE and TURN_LONG of kernels/lists.cu, and up to what size an axis is short there.
const (
	turnTile  = 4096
	turnLong  = 512
	turnShort = 64
)

// turnAll queues the conversions of tensors whose two inner axes change places, in one
// go, and returns the call with the others.
func (d *Device) turnAll(c *backend.Call) (*backend.Call, error) {
	var turned, others []int
	var sizes [][2]int
	for i := range c.In {
		if a, b, ok := exchanged(&c.In[i]); ok {
			turned, sizes = append(turned, i), append(sizes, [2]int{a, b})
		} else {
			others = append(others, i)
		}
	}
	if len(turned) == 0 {
		return c, nil
	}
	k, err := d.kernel("lists", "turn_"+typeName(c.In[0].DType)+"_"+typeName(c.Out.DType))
	if err != nil {
		return nil, err
	}
	p := paramsOf[listParams](d, k)
	p.address = 0
	err = perLaunch(&p.l, 3, len(turned), func(n, blocks int) (int, bool) {
		i := turned[n]
		a, b := sizes[n][0], sizes[n][1]
		tiles := c.In[i].Elements() / (a * b) * ceil(max(a, b), min(turnTile/min(a, b), turnLong))
		return p.l.add(blocks, tiles, 1, addr(&c.In[i]), resultOf(c, i).Block.Addr, uintptr(a|b<<32))
	}, func(blocks int) error { return d.launch(k, grid{x: blocks, threads: blockThreads}) })
	rest := &backend.Call{Op: c.Op, Attrs: c.Attrs}
	rest.Out.DType = c.Out.DType
	for n, i := range others {
		rest.In = append(rest.In, c.In[i])
		if n == 0 {
			rest.Out = *resultOf(c, i)
		} else {
			rest.More = append(rest.More, *resultOf(c, i))
		}
	}
	return rest, err
}

// exchanged reports whether a view, which may have several matrices, shows each transposed:
// (k, a, b) of elements that lie as (k, b, a), with a or b short.
func exchanged(v *backend.View) (a, b int, ok bool) {
	if n := v.Elements(); n == 0 || n >= 1<<31 || v.Contiguous() {
		return 0, 0, false
	}
	axes := make([]int, len(v.Shape))
	for i := range axes {
		axes[i] = i
	}
	x := indexAxes(axes, v)
	if x.nd < 2 || x.nd > 3 {
		return 0, 0, false
	}
	a, b = int(x.size[1]), int(x.size[0])
	if min(a, b) > turnShort {
		return 0, 0, false
	}
	return a, b, x.stride[0][0] == int64(a) && x.stride[0][1] == 1 && (x.nd == 2 || x.stride[0][2] == int64(a*b))
}

// mapAll queues what makes each result of one operand.
func (d *Device) mapAll(c *backend.Call, in []backend.View, to dtype.DType, factor uintptr) error {
	t := in[0].DType
	k, err := d.kernel("lists", "map_"+typeName(t)+"_"+typeName(to))
	if err != nil {
		return err
	}
	p := paramsOf[listParams](d, k)
	p.address = factor
	v := min(lanes(t), lanes(to))
	return perLaunch(&p.l, 2, len(in), func(i, blocks int) (int, bool) {
		n := in[i].Elements()
		if n == 0 {
			return blocks, true
		}
		return p.l.add(blocks, n, perBlock(v), addr(&in[i]), resultOf(c, i).Block.Addr)
	}, func(blocks int) error { return d.launch(k, grid{x: blocks, threads: blockThreads}) })
}
