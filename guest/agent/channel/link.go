package channel

import (
	"errors"
	"sync"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// ErrAbandoned tells a stream that the host it spoke to is gone.
var ErrAbandoned = errors.New("the host went away")

// streamsMost bounds what one host can make the agent hold.
const streamsMost = 1024

// Endpoint is the guest's side of one stream. The link calls it from its reader and it must never
// wait there.
type Endpoint interface {
	Data(payload []byte) error
	End()
	Window(channel wire.Channel, limit uint64)
	Note(kind wire.NoteKind, body []byte) error
	// Drop ends the stream for good: FORGET came, or it broke the contract.
	Drop()
	// Leave tells that the host which opened it is gone, and asks whether the stream lives on.
	Leave() (livesOn bool)
}

// Attachable is an endpoint that another host can take up.
type Attachable interface {
	Attach(session uint64, offsets wire.Offsets) error
}

// Opener starts what an OPEN frame asks for and returns its endpoint, or an error for FAIL.
type Opener func(stream uint32, session uint64, verb wire.Verb, body []byte) (Endpoint, error)

// Link is the conversation with one host after another.
type Link struct {
	port     *Port
	exchange *Exchange
	agent    string
	open     Opener
	state    func() uint8

	writing sync.Mutex // held while a frame goes out

	mutex      sync.Mutex
	session    uint64 // counts meetings; 0 before the first
	isMeeting  bool   // somebody of our generation has introduced themselves
	nonce      [16]byte
	lastStream uint32
	streams    map[uint32]Endpoint
	hello      chan struct{}
}

func NewLink(port *Port, exchange *Exchange, agent string, open Opener, state func() uint8) *Link {
	return &Link{
		port: port, exchange: exchange, agent: agent, open: open, state: state,
		streams: map[uint32]Endpoint{}, hello: make(chan struct{}, 1),
	}
}

// Run reads frames for as long as the port lives.
func (l *Link) Run() error {
	go l.answerMeetings()
	decoder := wire.NewDecoder(wire.FromHost)
	for {
		count, err := l.port.Read(decoder.Room())
		if err != nil {
			return err
		}
		if count == 0 {
			decoder.Doubt()
		}
		decoder.Filled(count)
		for frame, ok := decoder.Next(); ok; frame, ok = decoder.Next() {
			l.route(frame)
		}
	}
}

func (l *Link) route(frame wire.Frame) {
	if frame.Kind == wire.Sync {
		l.meet(frame.Payload)
		return
	}
	l.mutex.Lock()
	isMeeting, session := l.isMeeting, l.session
	endpoint := l.streams[frame.Stream]
	if frame.Stream > l.lastStream {
		l.lastStream = frame.Stream
	}
	l.mutex.Unlock()
	switch {
	case !isMeeting:
	case frame.Kind == wire.Open:
		l.opened(frame, session, endpoint)
	case frame.Kind == wire.Attach:
		l.attach(frame, session, endpoint)
	case endpoint != nil:
		if err := l.deliver(endpoint, frame); err != nil {
			l.Remove(frame.Stream)
			endpoint.Drop()
			go l.Fail(session, frame.Stream, err)
		}
	}
}

func (l *Link) deliver(endpoint Endpoint, frame wire.Frame) error {
	switch frame.Kind {
	case wire.Data, wire.End:
		if frame.Channel != wire.Input {
			return failure.New(failure.BadRequest, "input on a channel of output")
		}
		if frame.Kind == wire.Data {
			return endpoint.Data(frame.Payload)
		}
		endpoint.End()
	case wire.Fetch:
		var place wire.Place
		if err := wire.Decode(frame.Payload, &place); err != nil {
			return badBody(err)
		}
		payload, err := l.exchange.Fetch(place)
		if err != nil {
			return err
		}
		return endpoint.Data(payload)
	case wire.Window:
		var window wire.Limit
		if err := wire.Decode(frame.Payload, &window); err != nil {
			return badBody(err)
		}
		endpoint.Window(frame.Channel, window.Limit)
	case wire.Note:
		return endpoint.Note(wire.NoteKind(frame.Payload[0]), frame.Payload[1:])
	case wire.Forget:
		l.Remove(frame.Stream)
		endpoint.Drop()
	}
	return nil
}

func (l *Link) opened(frame wire.Frame, session uint64, existing Endpoint) {
	endpoint, err := Endpoint(nil), failure.New(failure.BadRequest, "the stream is in use")
	if existing == nil {
		endpoint, err = l.admit(frame, session)
	}
	if err != nil {
		go l.Fail(session, frame.Stream, err)
		return
	}
	l.mutex.Lock()
	l.streams[frame.Stream] = endpoint
	l.mutex.Unlock()
	if starter, ok := endpoint.(interface{ Start() }); ok {
		starter.Start()
	}
}

func (l *Link) admit(frame wire.Frame, session uint64) (Endpoint, error) {
	l.mutex.Lock()
	count := len(l.streams)
	l.mutex.Unlock()
	if count >= streamsMost {
		return nil, failure.New(failure.TooLarge, "too many streams are open")
	}
	return l.open(frame.Stream, session, wire.Verb(frame.Payload[0]), frame.Payload[1:])
}

func (l *Link) attach(frame wire.Frame, session uint64, endpoint Endpoint) {
	var offsets wire.Offsets
	err := wire.Decode(frame.Payload, &offsets)
	if attachable, ok := endpoint.(Attachable); err == nil && ok {
		err = attachable.Attach(session, offsets)
	} else if err == nil {
		err = failure.New(failure.NotFound, "no command has this stream")
	}
	if err != nil {
		go l.Fail(session, frame.Stream, err)
	}
}

// Remove forgets a stream that has ended.
func (l *Link) Remove(stream uint32) {
	l.mutex.Lock()
	delete(l.streams, stream)
	l.mutex.Unlock()
}

func badBody(err error) error { return failure.New(failure.BadRequest, err.Error()) }
