// Package wire is the contract of PROTOCOL.md in Go: frames, bodies and the decoder that finds
// its way back after a cut. It does no input or output.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
)

const (
	Generation  = 1
	HeaderBytes = 12
	PayloadMax  = 65536
	WindowBytes = 262144
	ListMax     = 4096
	StreamMax   = 1<<31 - 1

	marker     = 0xC5
	magicBytes = 16
	nonceBytes = 16
	syncBytes  = magicBytes + nonceBytes + 4
	helloBytes = syncBytes + 4 + 1 + 4
)

// Magic begins the payload of SYNC and HELLO.
var Magic = []byte("crucible:sync:01")

type Kind uint8

const (
	Sync   Kind = 1
	Hello  Kind = 2
	Open   Kind = 3
	Data   Kind = 4
	End    Kind = 5
	Window Kind = 6
	Note   Kind = 7
	Result Kind = 8
	Fail   Kind = 9
	Forget Kind = 10
	Attach Kind = 11
	Fetch  Kind = 12
)

type Channel uint8

const (
	Input  Channel = 0
	Output Channel = 1
	Errors Channel = 2
)

// Frame borrows its payload from whoever decoded it.
type Frame struct {
	Kind    Kind
	Channel Channel
	Stream  uint32
	Payload []byte
}

// Header is what the first 12 bytes of a frame say.
type Header struct {
	Kind    Kind
	Channel Channel
	Stream  uint32
	Length  int
}

// PutHeader writes a header into the first 12 bytes of frame.
func PutHeader(frame []byte, kind Kind, channel Channel, stream uint32, length int) {
	frame[0], frame[1], frame[2], frame[3] = marker, byte(kind), byte(channel), 0
	binary.LittleEndian.PutUint32(frame[4:], stream)
	binary.LittleEndian.PutUint32(frame[8:], uint32(length))
}

// AppendFrame adds a whole frame to buffer.
func AppendFrame(buffer []byte, frame Frame) []byte {
	var header [HeaderBytes]byte
	PutHeader(header[:], frame.Kind, frame.Channel, frame.Stream, len(frame.Payload))
	return append(append(buffer, header[:]...), frame.Payload...)
}

// ParseHeader reads the first 12 bytes of a frame and refuses whatever the contract does not allow.
func ParseHeader(raw []byte) (Header, error) {
	header := Header{
		Kind:    Kind(raw[1]),
		Channel: Channel(raw[2]),
		Stream:  binary.LittleEndian.Uint32(raw[4:]),
	}
	length := binary.LittleEndian.Uint32(raw[8:])
	switch {
	case raw[0] != marker:
		return header, errors.New("marker")
	case raw[3] != 0:
		return header, errors.New("zero byte")
	case !isKind(header.Kind):
		return header, errors.New("unknown kind")
	case length > PayloadMax:
		return header, errors.New("length above the cap")
	}
	header.Length = int(length)
	if err := checkStream(header); err != nil {
		return header, err
	}
	if err := checkChannel(header); err != nil {
		return header, err
	}
	return header, checkLength(header)
}

func isKind(kind Kind) bool { return kind >= Sync && kind <= Fetch }

func checkStream(header Header) error {
	meeting := header.Kind == Sync || header.Kind == Hello
	switch {
	case meeting && header.Stream != 0:
		return errors.New("stream of a meeting")
	case !meeting && header.Stream == 0:
		return errors.New("stream 0")
	case header.Stream > StreamMax:
		return errors.New("stream above 2^31-1")
	}
	return nil
}

func checkChannel(header Header) error {
	if header.Channel > Errors {
		return errors.New("channel above 2")
	}
	flows := header.Kind == Data || header.Kind == End || header.Kind == Window
	if !flows && header.Channel != 0 {
		return errors.New("channel where it has no meaning")
	}
	return nil
}

func checkLength(header Header) error {
	least, most := 0, PayloadMax
	switch header.Kind {
	case Sync:
		least, most = syncBytes, syncBytes
	case Hello:
		least = helloBytes
	case Open, Data, Note:
		least = 1
	case End, Forget:
		most = 0
	case Window:
		least, most = 8, 8
	case Attach:
		least, most = 16, 16
	case Fetch:
		least, most = 12, 12
	}
	if header.Length < least || header.Length > most {
		return errors.New("size of the payload")
	}
	return nil
}

// checkMagic is the one rule of a frame that needs its payload.
func checkMagic(header Header, payload []byte) error {
	if header.Kind != Sync && header.Kind != Hello {
		return nil
	}
	if !bytes.HasPrefix(payload, Magic) {
		return errors.New("magic")
	}
	return nil
}
