package network

import (
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// lastWords bounds how long a program may take to read what the host sent before it closed.
const lastWords = 60 * time.Second

// windows is how many streams may have a whole window of input at once. The others make do with a small
// one, so that hundreds of slow readers do not fill the machine's memory.
type windows struct{ wide atomic.Int32 }

const wideMost = 16

func (w *windows) take() bool {
	if w.wide.Add(1) > wideMost {
		w.wide.Add(-1)
		return false
	}
	return true
}

func (w *windows) giveBack() { w.wide.Add(-1) }

// Take joins a connection that waits to a stream and carries bytes both ways until both have ended. A
// host that leaves after its END has closed: the program still gets everything. One that leaves before
// has aborted, and the program gets a reset.
func (n *Network) Take(number uint32, stream *channel.Stream) error {
	made, err := n.claim(number)
	if err != nil {
		return err
	}
	defer made.close()
	stream.WhenGone(func() { made.left(stream) })
	isWide := false
	stream.Input.Narrow(wire.TakeWindowBytes, func() bool { isWide = n.windows.take(); return isWide })
	defer func() {
		if isWide {
			n.windows.giveBack()
		}
	}()
	if err := stream.Tell(wire.NoteConnected, &wire.Empty{}); err != nil {
		reset(made.file)
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- send(stream, made) }()
	received := receive(stream, made)
	if received != nil && !stream.IsGone() {
		stream.Input.Close(received)
	}
	if err := <-sent; err != nil {
		return err
	}
	return received
}

// left is called when the host wants no more of a stream.
func (c *connection) left(stream *channel.Stream) {
	if !stream.Input.HasEnded() {
		reset(c.file)
		stream.Input.Close(channel.ErrAbandoned)
		return
	}
	c.file.SetWriteDeadline(time.Now().Add(lastWords))
	c.file.SetReadDeadline(time.Now()) // nobody wants to know what the program says
}

// send gives the program what the host sends, and its end.
func send(stream *channel.Stream, made *connection) error {
	for {
		data, err := stream.Input.Next()
		if err == io.EOF {
			shutdownWriting(made.raw)
			return nil
		}
		if err != nil {
			return err
		}
		count, err := writeSome(made.raw, data)
		if err != nil {
			reset(made.file) // wakes the other direction: the program is gone
			stream.Input.Close(err)
			return wasReset(err)
		}
		stream.Input.Took(count)
	}
}

// receive sends on every piece as it comes: whoever reads at the other side is waiting for it.
func receive(stream *channel.Stream, made *connection) error {
	output := stream.Output()
	output.Open()
	for {
		count, err := readSome(made.raw, output.Space, output.Release)
		if err != nil {
			return wasReset(err)
		}
		if count == 0 {
			return output.End()
		}
		if err := output.Add(count); err != nil {
			return err
		}
		if err := output.Flush(); err != nil {
			return err
		}
		output.Release()
	}
}

func wasReset(err error) error {
	if err == syscall.ECONNRESET || err == syscall.EPIPE || err == syscall.ETIMEDOUT {
		return failure.New(failure.Reset, "the program reset the connection")
	}
	return failure.About(err, "connection")
}
