package channel

import "crucible.dev/agent/wire"

// Replay keeps the output of a command until the host has acknowledged it, so that a host which
// comes later can still have it. It does not lock.
type Replay struct {
	ring     Ring
	limit    uint64 // offset up to which the host lets us send
	next     uint64 // offset of the next byte to send
	isClosed bool
	endSent  bool
}

func NewReplay() *Replay { return &Replay{limit: wire.WindowBytes} }

// Room is how many more bytes may be produced: what is not acknowledged never passes one window.
func (r *Replay) Room() int { return int(r.limit - r.ring.Tail) }

// Append takes output; it must fit Room.
func (r *Replay) Append(data []byte) { r.ring.Append(data) }

// Close says that no more output comes.
func (r *Replay) Close() { r.isClosed = true }

func (r *Replay) IsClosed() bool { return r.isClosed }

// Allow takes a WINDOW; it acknowledges everything below one window under the limit.
func (r *Replay) Allow(limit uint64) {
	if most := r.ring.Tail + wire.WindowBytes; limit > most {
		limit = most // nobody can have read what was never sent
	}
	if limit <= r.limit {
		return
	}
	r.limit = limit
	r.ring.Release(limit - wire.WindowBytes)
	if r.next < r.ring.Head {
		r.next = r.ring.Head
	}
}

// Rewind starts again at an offset, or at the oldest byte still kept. What lies below the offset
// is with the host and counts as acknowledged. It fails when so much was never produced.
func (r *Replay) Rewind(offset uint64) (start uint64, ok bool) {
	if offset > r.ring.Tail {
		return 0, false
	}
	r.Allow(offset + wire.WindowBytes)
	if offset < r.ring.Head {
		offset = r.ring.Head
	}
	r.next, r.endSent = offset, false
	return offset, true
}

// HasDue tells whether bytes or the END wait to be sent.
func (r *Replay) HasDue() bool {
	return r.next < r.ring.Tail || r.isClosed && !r.endSent
}

// Take copies the next bytes to send into buffer.
func (r *Replay) Take(buffer []byte) int {
	count := copy(buffer, r.ring.From(r.next))
	r.next += uint64(count)
	return count
}

// TakeEnd tells, once, that everything was sent and the END is due.
func (r *Replay) TakeEnd() bool {
	if !r.isClosed || r.endSent || r.next < r.ring.Tail {
		return false
	}
	r.endSent = true
	return true
}

// IsDone tells that the END has been sent.
func (r *Replay) IsDone() bool { return r.endSent }
