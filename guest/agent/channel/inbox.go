package channel

import (
	"io"
	"sync"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// Inbox holds the input of one stream between the link, which never waits, and the reader, who
// takes it when it likes and thereby grants the host more.
type Inbox struct {
	mutex    sync.Mutex
	changed  *sync.Cond
	ring     Ring
	granted  uint64 // offset up to which the host may send
	window   uint64
	widen    func() bool
	hasEnded bool
	failed   error
	grant    func(limit uint64)
}

// NewInbox calls grant, from the reader's goroutine, whenever the host may send more.
func NewInbox(grant func(limit uint64)) *Inbox {
	inbox := &Inbox{granted: wire.WindowBytes, window: wire.WindowBytes, grant: grant}
	inbox.changed = sync.NewCond(&inbox.mutex)
	return inbox
}

// Put takes a DATA payload. It refuses what passes the granted limit or follows the END.
func (i *Inbox) Put(data []byte) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.failed != nil {
		return nil // the reader is gone; the bytes are of no use to anyone
	}
	if i.hasEnded {
		return failure.New(failure.BadRequest, "input after its end")
	}
	if i.ring.Tail+uint64(len(data)) > i.granted {
		return failure.New(failure.BadRequest, "input beyond the window")
	}
	i.ring.Append(data)
	i.changed.Signal()
	return nil
}

// End marks that no more input follows.
func (i *Inbox) End() {
	i.mutex.Lock()
	i.hasEnded = true
	i.mutex.Unlock()
	i.changed.Broadcast()
}

// Close makes reads fail with err and drops what was held.
func (i *Inbox) Close(err error) {
	i.mutex.Lock()
	if i.failed == nil {
		i.failed = err
	}
	i.ring.Release(i.ring.Tail)
	i.mutex.Unlock()
	i.changed.Broadcast()
}

// Narrow makes the input begin with a smaller window, before any of it is read. Once a reader has taken
// much, widen is asked, until it agrees, whether there may be a whole one.
func (i *Inbox) Narrow(window uint64, widen func() bool) {
	i.mutex.Lock()
	i.granted, i.window, i.widen = window, window, widen
	i.mutex.Unlock()
}

// Read implements io.Reader; io.EOF follows the last byte before the END.
func (i *Inbox) Read(buffer []byte) (int, error) {
	data, err := i.Next()
	if err != nil {
		return 0, err
	}
	count := copy(buffer, data)
	i.Took(count)
	return count, nil
}

// Next waits for bytes and returns some without taking them. They are good until Took.
func (i *Inbox) Next() ([]byte, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for i.ring.Head == i.ring.Tail && !i.hasEnded && i.failed == nil {
		i.changed.Wait()
	}
	if i.failed != nil {
		return nil, i.failed
	}
	if i.ring.Head == i.ring.Tail {
		return nil, io.EOF
	}
	return i.ring.From(i.ring.Head), nil
}

// Took says how many of those bytes were taken; it may grant the host more.
func (i *Inbox) Took(count int) {
	i.mutex.Lock()
	i.ring.Release(i.ring.Head + uint64(count))
	if i.widen != nil && i.ring.Head >= 2*i.window && i.widen() {
		i.window, i.widen = wire.WindowBytes, nil
	}
	limit := i.ring.Head + i.window
	isDue := limit >= i.granted+i.window/2 && !i.hasEnded
	if isDue {
		i.granted = limit
	}
	i.mutex.Unlock()
	if isDue {
		i.grant(limit)
	}
}

// HasEnded tells whether the host has sent its END.
func (i *Inbox) HasEnded() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.hasEnded
}

// Received tells how many bytes have come, and how far the host may send.
func (i *Inbox) Received() (received, granted uint64) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.ring.Tail, i.granted
}
