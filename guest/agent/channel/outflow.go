package channel

import (
	"io"
	"sync"

	"crucible.dev/agent/wire"
)

// FrameBytes is the size of a frame of bulk data: the port takes 32 KiB in one write.
const FrameBytes = 32 * 1024

var framePool = sync.Pool{New: func() any { return new([FrameBytes]byte) }}

// BorrowFrame lends a buffer for one frame; give it back with ReturnFrame.
func BorrowFrame() *[FrameBytes]byte      { return framePool.Get().(*[FrameBytes]byte) }
func ReturnFrame(frame *[FrameBytes]byte) { framePool.Put(frame) }

// Outflow sends bytes on channel 1 within the window. Bytes are collected in a frame with room for
// its header, so that they are copied once at most.
type Outflow struct {
	stream *Stream
	frame  *[FrameBytes]byte
	filled int

	mutex    sync.Mutex
	allowed  *sync.Cond
	sent     uint64
	limit    uint64
	isGone   bool
	wasUsed  bool
	hasEnded bool
}

func newOutflow(stream *Stream) *Outflow {
	outflow := &Outflow{stream: stream, limit: wire.WindowBytes}
	outflow.allowed = sync.NewCond(&outflow.mutex)
	return outflow
}

// Open marks that this verb answers with data, so that an END is owed even when there is none.
func (o *Outflow) Open() { o.wasUsed = true }

// Space is where the next bytes go; tell Add how many were put there.
func (o *Outflow) Space() []byte {
	if o.frame == nil {
		o.wasUsed = true
		o.frame = BorrowFrame()
	}
	return o.frame[wire.HeaderBytes+o.filled:]
}

// Add counts bytes that were put into Space and sends the frame when it is full.
func (o *Outflow) Add(count int) error {
	o.filled += count
	if o.filled == FrameBytes-wire.HeaderBytes {
		return o.Flush()
	}
	return nil
}

func (o *Outflow) Write(data []byte) (int, error) {
	total := len(data)
	for len(data) > 0 {
		count := copy(o.Space(), data)
		data = data[count:]
		if err := o.Add(count); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// ReadFrom implements io.ReaderFrom: it reads straight into frames.
func (o *Outflow) ReadFrom(source io.Reader) (total int64, err error) {
	for {
		count, err := source.Read(o.Space())
		total += int64(count)
		if failed := o.Add(count); failed != nil {
			return total, failed
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Flush sends what was collected, in pieces if the window is nearly used up.
func (o *Outflow) Flush() error {
	start := 0
	for start < o.filled {
		count, err := o.await(o.filled - start)
		if err != nil {
			return err
		}
		// The header overwrites bytes that have already been sent.
		piece := o.frame[start : start+wire.HeaderBytes+count]
		wire.PutHeader(piece, wire.Data, wire.Output, o.stream.ID, count)
		if err := o.stream.link.SendRaw(o.stream.Session, piece); err != nil {
			return err
		}
		start += count
	}
	o.filled = 0
	return nil
}

// Release gives an empty frame back, for a stream that may wait long for its next bytes.
func (o *Outflow) Release() {
	if o.frame != nil && o.filled == 0 {
		ReturnFrame(o.frame)
		o.frame = nil
	}
}

// End sends what is left and says that nothing follows.
func (o *Outflow) End() error {
	if o.hasEnded {
		return nil
	}
	o.hasEnded = true
	if err := o.Flush(); err != nil {
		return err
	}
	o.Release()
	return o.stream.link.Send(o.stream.Session, wire.Frame{Kind: wire.End, Channel: wire.Output, Stream: o.stream.ID})
}

func (o *Outflow) finish() error {
	if !o.wasUsed {
		return nil
	}
	return o.End()
}

// await waits until at least one of wanted bytes may go and takes as many as may.
func (o *Outflow) await(wanted int) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for o.sent == o.limit && !o.isGone {
		o.allowed.Wait()
	}
	if o.isGone {
		return 0, ErrAbandoned
	}
	if room := o.limit - o.sent; uint64(wanted) > room {
		wanted = int(room)
	}
	o.sent += uint64(wanted)
	return wanted, nil
}

func (o *Outflow) allow(limit uint64) {
	o.mutex.Lock()
	if limit > o.limit {
		o.limit = limit
	}
	o.mutex.Unlock()
	o.allowed.Broadcast()
}

func (o *Outflow) abandon() {
	o.mutex.Lock()
	o.isGone = true
	o.mutex.Unlock()
	o.allowed.Broadcast()
}
