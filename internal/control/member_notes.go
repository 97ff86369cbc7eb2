package control

import (
	"context"
)

// Tell passes a text to all ranks, this one too. A key is told once.
func (m *Member) Tell(key string, text []byte) error {
	return m.send(frameNote, encodeNote(key, text))
}

// Hear waits for what a rank tells under a key.
func (m *Member) Hear(ctx context.Context, key string) ([]byte, error) {
	select {
	case text := <-m.note(key):
		return text, nil
	case <-m.over:
		return nil, m.Fault()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *Member) note(key string) chan []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.notes[key]
	if c == nil {
		c = make(chan []byte, 1)
		m.notes[key] = c
	}
	return c
}

func encodeNote(key string, text []byte) []byte {
	return append([]byte{byte(len(key))}, append([]byte(key), text...)...)
}

func decodeNote(b []byte) (key string, text []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, errFrame
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], nil
}
