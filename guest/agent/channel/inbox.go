package channel

import (
	"io"
	"sync"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

const grantStep = wire.WindowBytes / 2

// Inbox holds the input of one stream between the link, which never waits, and the reader, who
// takes it when it likes and thereby grants the host more.
type Inbox struct {
	mutex    sync.Mutex
	changed  *sync.Cond
	ring     Ring
	granted  uint64 // offset up to which the host may send
	hasEnded bool
	failed   error
	grant    func(limit uint64)
}

// NewInbox calls grant, from the reader's goroutine, whenever the host may send more.
func NewInbox(grant func(limit uint64)) *Inbox {
	inbox := &Inbox{granted: wire.WindowBytes, grant: grant}
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

// Read implements io.Reader; io.EOF follows the last byte before the END.
func (i *Inbox) Read(buffer []byte) (int, error) {
	i.mutex.Lock()
	for i.ring.Head == i.ring.Tail && !i.hasEnded && i.failed == nil {
		i.changed.Wait()
	}
	if i.failed != nil {
		defer i.mutex.Unlock()
		return 0, i.failed
	}
	if i.ring.Head == i.ring.Tail {
		defer i.mutex.Unlock()
		return 0, io.EOF
	}
	count := copy(buffer, i.ring.From(i.ring.Head))
	i.ring.Release(i.ring.Head + uint64(count))
	limit := i.ring.Head + wire.WindowBytes
	isDue := limit-i.granted >= grantStep && !i.hasEnded
	if isDue {
		i.granted = limit
	}
	i.mutex.Unlock()
	if isDue {
		i.grant(limit)
	}
	return count, nil
}

// Received tells how many bytes have come, and how far the host may send.
func (i *Inbox) Received() (received, granted uint64) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.ring.Tail, i.granted
}
