package channel

import (
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// meet takes a SYNC. A new nonce is a new host: what only the old one could use is abandoned.
func (l *Link) meet(payload []byte) {
	var meeting wire.Meeting
	if wire.Decode(payload, &meeting) != nil {
		return
	}
	l.mutex.Lock()
	isNew := l.session == 0 || meeting.Nonce != l.nonce
	left := []Endpoint{}
	if isNew {
		l.session++
		l.nonce = meeting.Nonce
		for _, endpoint := range l.streams {
			left = append(left, endpoint)
		}
	}
	// A host of another generation gets our number in HELLO and is not listened to.
	l.isMeeting = meeting.Generation == wire.Generation
	l.mutex.Unlock()
	for _, endpoint := range left {
		endpoint.Leave()
	}
	select {
	case l.hello <- struct{}{}:
	default: // a HELLO of this nonce is already due; one is enough for a row of SYNCs
	}
}

// answerMeetings writes HELLOs apart from the reader, which must not wait for a slow host.
func (l *Link) answerMeetings() {
	for range l.hello {
		l.mutex.Lock()
		session := l.session
		greeting := wire.Greeting{
			Meeting:    wire.Meeting{Nonce: l.nonce, Generation: wire.Generation},
			NextStream: l.lastStream + 1,
			Agent:      l.agent,
		}
		l.mutex.Unlock()
		greeting.State = l.state()
		l.Send(session, wire.Frame{Kind: wire.Hello, Payload: wire.Encode(&greeting)})
	}
}

// Send writes one frame to the host of a session; it fails when that host is gone.
func (l *Link) Send(session uint64, frame wire.Frame) error {
	return l.SendRaw(session, wire.AppendFrame(make([]byte, 0, wire.HeaderBytes+len(frame.Payload)), frame))
}

// SendRaw writes a frame that already has its header. A frame whose host is gone is cut short: the
// next host skips everything up to its HELLO.
func (l *Link) SendRaw(session uint64, frame []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	for len(frame) > 0 {
		if l.Session() != session {
			return ErrAbandoned
		}
		count, err := l.port.WriteSome(frame)
		if err != nil {
			return err
		}
		frame = frame[count:]
	}
	return nil
}

// Session is the number of the current meeting.
func (l *Link) Session() uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.session
}

// Fail ends a stream with an error.
func (l *Link) Fail(session uint64, stream uint32, err error) error {
	payload := wire.Encode(failure.Message(err))
	return l.Send(session, wire.Frame{Kind: wire.Fail, Stream: stream, Payload: payload})
}
