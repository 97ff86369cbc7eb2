package control

import (
	"fmt"
	"strings"
)

// round is one collective, until all ranks have announced it.
type round struct {
	first   entry
	rank    int // who announced it first
	came    int
	waiting []int // ranks that wait for the word to go
}

// limits of what the hub remembers.
const (
	maxRounds = 1 << 16
	maxTexts  = 1 << 14
	outLimit  = 1 << 12
)

// enter notes that a rank begins a collective, and compares it with the others'.
func (h *hub) enter(l *line, body []byte) {
	e, err := decodeEntry(body)
	if err != nil || e.seq != l.at {
		h.end(&Fault{Failed, l.Rank, l.Host, fmt.Sprintf("%s announced collective %d after %d (%v)", l.Peer, e.seq, l.at, err)})
		return
	}
	l.at++
	if e.text != "" {
		if len(h.texts) >= maxTexts {
			clear(h.texts)
		}
		h.texts[e.hash] = e.text
	}
	l.last = e
	r := h.rounds[e.seq]
	if r == nil {
		if len(h.rounds) >= maxRounds {
			h.end(&Fault{Failed, l.Rank, l.Host, fmt.Sprintf("%s is %d collectives ahead of the others", l.Peer, maxRounds)})
			return
		}
		r = &round{first: e, rank: l.Rank}
		h.rounds[e.seq] = r
	}
	if e.hash != r.first.hash {
		h.differ(e.seq)
		return
	}
	r.came++
	if e.wait {
		r.waiting = append(r.waiting, l.Rank)
	}
	if r.came < h.size {
		if h.gone > 0 {
			h.check()
		}
		return
	}
	for _, rank := range r.waiting {
		h.lines[rank].send(frameGo, entry{seq: e.seq}.encode(), nil)
	}
	delete(h.rounds, e.seq)
}

// differ ends the group because of what its ranks announced as one collective.
func (h *hub) differ(seq uint64) {
	by := map[string][]string{}
	var order []string
	culprit := -1
	for _, l := range h.lines {
		text := "has not come to it yet"
		if l.at == seq+1 {
			text = h.text(l.last)
		} else if l.at > seq+1 {
			text = "went on"
		}
		if by[text] == nil {
			order = append(order, text)
			if len(order) == 2 {
				culprit = l.Rank
			}
		}
		by[text] = append(by[text], fmt.Sprint(l.Rank))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ranks differ in collective %d:", seq)
	for _, text := range order {
		word := "rank "
		if len(by[text]) > 1 {
			word = "ranks "
		}
		fmt.Fprintf(&b, "\n  %s%s: %s", word, few(by[text]), text)
	}
	f := &Fault{Cause: Differ, Rank: culprit, Msg: b.String()}
	if culprit >= 0 {
		f.Host = h.lines[culprit].Host
	}
	h.end(f)
}

func (h *hub) text(e entry) string {
	if e.text != "" {
		return e.text
	}
	if t, ok := h.texts[e.hash]; ok {
		return t
	}
	return "of a kind seen earlier"
}

// late names whom a rank waits for in vain.
func (h *hub) late(l *line, body []byte) {
	e, err := decodeEntry(body)
	if err != nil {
		h.end(&Fault{Failed, l.Rank, l.Host, err.Error()})
		return
	}
	if e.wait { // a message with that rank
		if e.seq >= uint64(h.size) {
			h.end(&Fault{Failed, l.Rank, l.Host, fmt.Sprintf("%s waits for a rank %d", l.Peer, e.seq)})
			return
		}
		other := h.lines[e.seq]
		h.end(&Fault{Late, other.Rank, other.Host, fmt.Sprintf("%s on rank %d: %s does not take part", e.text, l.Rank, other.Peer)})
		return
	}
	what := fmt.Sprintf("collective %d, %s, has not ended on rank %d within %s", e.seq, h.text(l.last), l.Rank, e.text)
	var missing []*line
	for _, other := range h.lines {
		if other.at <= e.seq {
			missing = append(missing, other)
		}
	}
	if len(missing) == 0 {
		h.end(&Fault{Late, -1, "", what + ": all ranks are in it, but data does not arrive"})
		return
	}
	var who []string
	for _, m := range missing {
		at := "has begun none"
		if m.at > 0 {
			at = fmt.Sprintf("was last in collective %d, %s", m.last.seq, h.text(m.last))
		}
		who = append(who, fmt.Sprintf("%s has not come to it and %s", m.Peer, at))
	}
	h.end(&Fault{Late, missing[0].Rank, missing[0].Host, what + ": " + few(who)})
}
