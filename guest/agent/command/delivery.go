package command

import (
	"crucible.dev/agent/channel"
	"crucible.dev/agent/wire"
)

// deliver sends whatever is due to whichever host is attached, until the command is forgotten.
func (e *Execution) deliver() {
	for {
		e.mutex.Lock()
		for !e.isDropped && !e.hasDue() {
			e.changed.Wait()
		}
		if e.isDropped {
			e.mutex.Unlock()
			return
		}
		session := e.session
		buffer := channel.BorrowFrame()
		frame := e.takeDue(buffer[:])
		e.mutex.Unlock()
		// A failure means that the host is gone; its successor will say where to start again.
		e.starter.Link.SendRaw(session, frame)
		channel.ReturnFrame(buffer)
	}
}

func (e *Execution) hasDue() bool {
	if !e.isAttached {
		return false
	}
	if len(e.notes) > 0 || e.result != nil && !e.resultSent {
		return true
	}
	for _, replay := range e.outputs {
		if replay.HasDue() {
			return true
		}
	}
	return false
}

// takeDue builds the next frame: notes, then output and errors, their ENDs, and last the result.
func (e *Execution) takeDue(buffer []byte) []byte {
	if len(e.notes) > 0 {
		note := e.notes[0]
		e.notes = e.notes[1:]
		return note
	}
	for index, replay := range e.outputs {
		which := wire.Output + wire.Channel(index)
		if count := replay.Take(buffer[wire.HeaderBytes:]); count > 0 {
			wire.PutHeader(buffer, wire.Data, which, e.stream, count)
			return buffer[:wire.HeaderBytes+count]
		}
		if replay.TakeEnd() {
			wire.PutHeader(buffer, wire.End, which, e.stream, 0)
			return buffer[:wire.HeaderBytes]
		}
	}
	e.resultSent = true
	return wire.AppendFrame(buffer[:0], wire.Frame{Kind: wire.Result, Stream: e.stream, Payload: wire.Encode(e.result)})
}

// tell queues a small frame; the caller holds the lock.
func (e *Execution) tell(kind wire.Kind, payload []byte) {
	e.notes = append(e.notes, wire.AppendFrame(nil, wire.Frame{Kind: kind, Stream: e.stream, Payload: payload}))
}

func (e *Execution) grantInput(limit uint64) {
	e.update(func() {
		if e.isAttached {
			e.tell(wire.Window, wire.Encode(&wire.Limit{Limit: limit}))
		}
	})
}
