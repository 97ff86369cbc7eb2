package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// greeting is what both sides begin with: a name and the version of the protocol.
const greeting = "LOCUSCG1"

const nonceSize = 32

// handshakeTime is how long a stranger may take to prove that it knows the token.
const handshakeTime = 10 * time.Second

// ErrToken is the error of a peer that does not know the group's token.
var ErrToken = errors.New("the token is not the group's")

// proof returns what only somebody with the token can compute, for one side of one
// connection.
func proof(token, side string, server, client []byte) []byte {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(side))
	m.Write(server)
	m.Write(client)
	return m.Sum(nil)
}

// admit lets a connection in that proves to know the token. Nothing else is read from it
// before.
func admit(c net.Conn, token string) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	challenge := make([]byte, len(greeting)+nonceSize)
	copy(challenge, greeting)
	server := challenge[len(greeting):]
	rand.Read(server)
	if _, err := c.Write(challenge); err != nil {
		return err
	}
	answer := make([]byte, len(greeting)+nonceSize+sha256.Size)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	client := answer[len(greeting) : len(greeting)+nonceSize]
	if string(answer[:len(greeting)]) != greeting || !hmac.Equal(answer[len(greeting)+nonceSize:], proof(token, "client", server, client)) {
		return ErrToken
	}
	if _, err := c.Write(proof(token, "server", server, client)); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// introduce proves to the other side that this one knows the token, and checks that it
// does too. The deadline of the connection is the caller's.
func introduce(c net.Conn, token string) error {
	challenge := make([]byte, len(greeting)+nonceSize)
	if _, err := io.ReadFull(c, challenge); err != nil {
		return err
	}
	if string(challenge[:len(greeting)]) != greeting {
		return fmt.Errorf("%w, or not this version of it: it begins with %q", errFrame, challenge[:len(greeting)])
	}
	server := challenge[len(greeting):]
	client := make([]byte, nonceSize)
	rand.Read(client)
	answer := append(append([]byte(greeting), client...), proof(token, "client", server, client)...)
	if _, err := c.Write(answer); err != nil {
		return err
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, theirs); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrToken // it hung up
		}
		return err
	}
	if !hmac.Equal(theirs, proof(token, "server", server, client)) {
		return ErrToken
	}
	return nil
}
