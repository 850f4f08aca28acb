package channel

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// host is the other end of a link, over a socket pair in place of the virtio port.
type host struct {
	t       *testing.T
	file    *os.File
	decoder *wire.Decoder
}

func meetHost(t *testing.T, open func(link *Link) Opener) *host {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(ends[0]), "port")
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var link *Link
	link = NewLink(&Port{file: file, raw: raw}, &Exchange{fd: -1}, "test", func(stream uint32, session uint64, verb wire.Verb, body []byte) (Endpoint, error) {
		return open(link)(stream, session, verb, body)
	}, func() uint8 { return wire.StateLive })
	go link.Run()
	h := &host{t, os.NewFile(uintptr(ends[1]), "host"), wire.NewDecoder(func(wire.Kind) bool { return true })}
	t.Cleanup(func() { h.file.Close() })
	return h
}

func (h *host) send(frame wire.Frame) {
	h.t.Helper()
	if _, err := h.file.Write(wire.AppendFrame(nil, frame)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) sync(nonce byte) {
	h.send(wire.Frame{Kind: wire.Sync, Payload: wire.Encode(&wire.Meeting{Nonce: [16]byte{nonce}, Generation: wire.Generation})})
}

func (h *host) next() wire.Frame {
	h.t.Helper()
	for {
		if frame, ok := h.decoder.Next(); ok {
			frame.Payload = append([]byte{}, frame.Payload...)
			return frame
		}
		h.file.SetReadDeadline(time.Now().Add(5 * time.Second))
		count, err := h.file.Read(h.decoder.Room())
		if err != nil {
			h.t.Fatal(err)
		}
		h.decoder.Filled(count)
	}
}

func (h *host) expect(kind wire.Kind) wire.Frame {
	h.t.Helper()
	frame := h.next()
	if frame.Kind != kind {
		h.t.Fatalf("got kind %d %q, not %d", frame.Kind, frame.Payload, kind)
	}
	return frame
}

// echo answers with its input.
func echo(link *Link) Opener {
	return func(stream uint32, session uint64, _ wire.Verb, _ []byte) (Endpoint, error) {
		return NewStream(link, stream, session, func(s *Stream) (wire.Message, error) {
			_, err := io.Copy(s.Output(), s.Input)
			return &wire.Empty{}, err
		}), nil
	}
}

func TestNobodyIsHeardBeforeTheyIntroduceThemselves(t *testing.T) {
	h := meetHost(t, echo)
	h.send(wire.Frame{Kind: wire.Open, Stream: 9, Payload: []byte{3}})
	h.sync(1)
	var greeting wire.Greeting
	if err := wire.Decode(h.expect(wire.Hello).Payload, &greeting); err != nil {
		t.Fatal(err)
	}
	if greeting.NextStream <= 9 || greeting.Nonce != [16]byte{1} {
		t.Errorf("greeted with %+v", greeting)
	}
}

func TestAStreamEndsWithDataEndAndResult(t *testing.T) {
	h := meetHost(t, echo)
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	h.send(wire.Frame{Kind: wire.Data, Stream: 1, Payload: []byte("hello")})
	h.send(wire.Frame{Kind: wire.End, Stream: 1})
	if frame := h.expect(wire.Data); string(frame.Payload) != "hello" {
		t.Errorf("echoed %q", frame.Payload)
	}
	h.expect(wire.End)
	h.expect(wire.Result)
}

func TestANewHostAbandonsTheStreamsOfTheOld(t *testing.T) {
	abandoned := make(chan error, 1)
	h := meetHost(t, func(link *Link) Opener {
		return func(stream uint32, session uint64, _ wire.Verb, _ []byte) (Endpoint, error) {
			return NewStream(link, stream, session, func(s *Stream) (wire.Message, error) {
				_, err := s.Input.Read(make([]byte, 1))
				abandoned <- err
				return &wire.Empty{}, err
			}), nil
		}
	})
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	h.sync(2)
	h.expect(wire.Hello)
	if err := <-abandoned; err != ErrAbandoned {
		t.Errorf("ended with %v", err)
	}
}

func TestTheSameNonceAgainChangesNothing(t *testing.T) {
	h := meetHost(t, echo)
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.End, Stream: 1})
	h.expect(wire.End)
	h.expect(wire.Result)
}

func TestAStreamThatStallsStallsAlone(t *testing.T) {
	h := meetHost(t, func(link *Link) Opener {
		return func(stream uint32, session uint64, _ wire.Verb, _ []byte) (Endpoint, error) {
			return NewStream(link, stream, session, func(s *Stream) (wire.Message, error) {
				size := 10
				if stream == 1 {
					size = 2 * wire.WindowBytes
				}
				_, err := s.Output().Write(make([]byte, size))
				return &wire.Empty{}, err
			}), nil
		}
	})
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	got := 0
	for got < wire.WindowBytes {
		got += len(h.expect(wire.Data).Payload)
	}
	h.send(wire.Frame{Kind: wire.Open, Stream: 2, Payload: []byte{3}})
	for _, kind := range []wire.Kind{wire.Data, wire.End, wire.Result} {
		if frame := h.expect(kind); frame.Stream != 2 {
			t.Fatalf("stream %d sent beyond its window", frame.Stream)
		}
	}
	limit := wire.Encode(&wire.Limit{Limit: 2 * wire.WindowBytes})
	h.send(wire.Frame{Kind: wire.Window, Channel: wire.Output, Stream: 1, Payload: limit})
	for got < 2*wire.WindowBytes {
		got += len(h.expect(wire.Data).Payload)
	}
	h.expect(wire.End)
	h.expect(wire.Result)
}

func TestAForgottenStreamGetsNoAnswer(t *testing.T) {
	h := meetHost(t, echo)
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	h.send(wire.Frame{Kind: wire.Forget, Stream: 1})
	h.send(wire.Frame{Kind: wire.Open, Stream: 2, Payload: []byte{3}})
	h.send(wire.Frame{Kind: wire.End, Stream: 2})
	if frame := h.next(); frame.Stream != 2 {
		t.Errorf("stream %d answered with kind %d", frame.Stream, frame.Kind)
	}
}

func TestAttachingToNothingFails(t *testing.T) {
	h := meetHost(t, echo)
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Attach, Stream: 5, Payload: wire.Encode(&wire.Offsets{})})
	var failed wire.Failure
	if err := wire.Decode(h.expect(wire.Fail).Payload, &failed); err != nil || failed.Code != failure.NotFound {
		t.Errorf("%+v, %v", failed, err)
	}
}

func TestTooMuchInputFailsItsStream(t *testing.T) {
	h := meetHost(t, func(link *Link) Opener {
		return func(stream uint32, session uint64, _ wire.Verb, _ []byte) (Endpoint, error) {
			return NewStream(link, stream, session, func(s *Stream) (wire.Message, error) {
				<-s.Gone()
				return &wire.Empty{}, nil
			}), nil
		}
	})
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	for sent := 0; sent <= wire.WindowBytes; sent += wire.PayloadMax {
		h.send(wire.Frame{Kind: wire.Data, Stream: 1, Payload: make([]byte, wire.PayloadMax)})
	}
	h.expect(wire.Fail)
}

func TestInputThatEndedIsLeftToWhoeverAskedForIt(t *testing.T) {
	read := make(chan string, 1)
	ready := make(chan struct{})
	left := make(chan struct{})
	h := meetHost(t, func(link *Link) Opener {
		return func(stream uint32, session uint64, _ wire.Verb, _ []byte) (Endpoint, error) {
			return NewStream(link, stream, session, func(s *Stream) (wire.Message, error) {
				s.WhenGone(func() { close(left) })
				close(ready)
				<-left
				data, err := io.ReadAll(s.Input)
				read <- string(data)
				return &wire.Empty{}, err
			}), nil
		}
	})
	h.sync(1)
	h.expect(wire.Hello)
	h.send(wire.Frame{Kind: wire.Open, Stream: 1, Payload: []byte{3}})
	<-ready
	h.send(wire.Frame{Kind: wire.Data, Stream: 1, Payload: []byte("last words")})
	h.send(wire.Frame{Kind: wire.End, Stream: 1})
	h.send(wire.Frame{Kind: wire.Forget, Stream: 1})
	if words := <-read; words != "last words" {
		t.Errorf("read %q", words)
	}
}
