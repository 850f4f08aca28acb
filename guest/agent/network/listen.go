package network

import (
	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// ear is one host that listens.
type ear struct {
	stream *channel.Stream
	asks   chan *connection
}

// Listen turns the network on and tells the host of every connection, until it stops listening.
func (n *Network) Listen(stream *channel.Stream) error {
	if n.broken != nil {
		return failure.New(failure.IO, "this machine can have no network: "+n.broken.Error())
	}
	listening, err := n.attend(stream)
	if err != nil {
		return err
	}
	defer n.silence(listening)
	if err := stream.Tell(wire.NoteListening, &wire.Empty{}); err != nil {
		return err
	}
	for {
		select {
		case made := <-listening.asks:
			if err := n.tell(stream, listening, made); err != nil {
				return err
			}
		case <-stream.Gone():
			return channel.ErrAbandoned
		}
	}
}

// attend makes the stream the one that is told. The host before may just be leaving.
func (n *Network) attend(stream *channel.Stream) (*ear, error) {
	n.Settle()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.ear != nil {
		return nil, failure.New(failure.Exists, "somebody listens already")
	}
	n.ear = &ear{stream: stream, asks: make(chan *connection, pendingMost)}
	n.gate.open()
	return n.ear, nil
}

// Settle turns the network off if the host that listened is gone. When it returns, the network is on only
// for a host that is there.
func (n *Network) Settle() {
	n.mutex.Lock()
	listening := n.ear
	n.mutex.Unlock()
	if listening != nil && listening.stream.IsGone() {
		n.silence(listening)
	}
}

// silence turns the network off, unless that was done or another host listens meanwhile.
func (n *Network) silence(listening *ear) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.ear != listening {
		return
	}
	n.ear = nil
	n.gate.shut()
	for number, made := range n.pending {
		made.giveUp.Stop()
		made.reset()
		delete(n.pending, number)
	}
}

// tell sends a connection, and with it all others that wait to be told.
func (n *Network) tell(stream *channel.Stream, listening *ear, made *connection) error {
	output := stream.Output()
	for {
		if n.isPending(made) {
			ask := wire.Ask{Number: made.number, Name: made.name, Address: string(made.address), Port: made.port}
			if _, err := output.Write(wire.AppendAsk(nil, &ask)); err != nil {
				return err
			}
		}
		select {
		case made = <-listening.asks:
		default:
			err := output.Flush()
			output.Release()
			return err
		}
	}
}
