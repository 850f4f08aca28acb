package channel

import (
	"sync"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// Stream is a request that ends with its answer and does not outlive its host: every verb but EXEC.
type Stream struct {
	ID      uint32
	Session uint64
	Input   *Inbox

	link   *Link
	serve  func(*Stream) (wire.Message, error)
	output *Outflow
	once   sync.Once
	gone   chan struct{}

	mutex    sync.Mutex
	whenGone func()
}

// NewStream runs serve in its own goroutine once the link knows the stream, and answers with what
// it returns.
func NewStream(link *Link, id uint32, session uint64, serve func(*Stream) (wire.Message, error)) *Stream {
	stream := &Stream{ID: id, Session: session, link: link, serve: serve, gone: make(chan struct{})}
	stream.Input = NewInbox(func(limit uint64) {
		payload := wire.Encode(&wire.Limit{Limit: limit})
		link.Send(session, wire.Frame{Kind: wire.Window, Channel: wire.Input, Stream: id, Payload: payload})
	})
	stream.output = newOutflow(stream)
	return stream
}

func (s *Stream) Start() {
	go func() {
		result, err := s.serveSafely()
		if err == nil {
			err = s.output.finish()
		}
		s.link.Remove(s.ID)
		if s.IsGone() {
			return
		}
		if err == nil {
			s.link.Send(s.Session, wire.Frame{Kind: wire.Result, Stream: s.ID, Payload: wire.Encode(result)})
		} else {
			s.link.Fail(s.Session, s.ID, err)
		}
		s.Drop()
	}()
}

// serveSafely keeps a mistake in one verb from ending the machine.
func (s *Stream) serveSafely() (result wire.Message, err error) {
	defer func() {
		if recover() != nil {
			err = failure.New(failure.IO, "the agent made a mistake")
		}
	}()
	return s.serve(s)
}

// Output is channel 1. Its END goes out with the answer, unless End was called before.
func (s *Stream) Output() *Outflow { return s.output }

// Gone is closed when nobody waits for an answer any more.
func (s *Stream) Gone() <-chan struct{} { return s.gone }

func (s *Stream) IsGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// WhenGone has do called once, from the link's reader as a rule, when nobody waits for an answer any
// more. What the host sent and nobody read is then left to do, which must close the input or have it read.
func (s *Stream) WhenGone(do func()) {
	s.mutex.Lock()
	s.whenGone = do
	s.mutex.Unlock()
	if s.IsGone() {
		do()
	}
}

// Tell sends a note.
func (s *Stream) Tell(kind wire.NoteKind, note wire.Message) error {
	return s.link.Send(s.Session, wire.Frame{Kind: wire.Note, Stream: s.ID, Payload: wire.EncodeNote(kind, note)})
}

func (s *Stream) Data(payload []byte) error { return s.Input.Put(payload) }
func (s *Stream) End()                      { s.Input.End() }

func (s *Stream) Window(channel wire.Channel, limit uint64) {
	if channel == wire.Output {
		s.output.allow(limit)
	}
}

func (s *Stream) Note(wire.NoteKind, []byte) error {
	return failure.New(failure.BadRequest, "this stream takes no notes")
}

func (s *Stream) Drop() {
	s.once.Do(func() {
		close(s.gone)
		s.output.abandon()
		s.mutex.Lock()
		whenGone := s.whenGone
		s.mutex.Unlock()
		if whenGone != nil {
			whenGone()
			return
		}
		s.Input.Close(ErrAbandoned)
	})
}

func (s *Stream) Leave() bool {
	s.link.Remove(s.ID)
	s.Drop()
	return false
}
