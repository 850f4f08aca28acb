package command

import (
	"io"
	"os"
	"syscall"
	"time"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/wire"
)

// startPumps moves bytes between the command and the stream.
func (e *Execution) startPumps(streams *stdio) {
	e.pumps.Add(1)
	go e.pumpOutput(streams.output, 0, streams.isPty)
	if streams.errors != nil {
		e.pumps.Add(1)
		go e.pumpOutput(streams.errors, 1, false)
	}
	if streams.isPty {
		e.outputs[1].Close()
	}
	if streams.input != nil {
		go e.pumpInput(streams)
	}
}

// pumpOutput reads as much as the window has room for. After the result it goes on reading, into
// nothing, as long as anyone holds the other end.
func (e *Execution) pumpOutput(file *os.File, index int, isTerminal bool) {
	isPumping := true
	stop := func() {
		if isPumping {
			isPumping = false
			e.update(func() { e.outputs[index].Close() })
			e.pumps.Done()
		}
	}
	for {
		room, isDrained := e.awaitRoom(index)
		if isDrained {
			stop()
		}
		frame, count, err := e.readBorrowed(file, room)
		if err == os.ErrDeadlineExceeded {
			file.SetReadDeadline(time.Time{})
			continue // woken to look again
		}
		if count <= 0 || err != nil {
			break
		}
		e.take(index, frame[:count])
		e.carrying.Add(-1)
		channel.ReturnFrame(frame)
	}
	stop()
	if !isTerminal {
		file.Close() // a terminal is closed with the command, whom it would otherwise hang up on
	}
}

func (e *Execution) awaitRoom(index int) (room int, isDrained bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for e.outputs[index].Room() == 0 && !e.isDrained && !e.isDropped {
		e.changed.Wait()
	}
	if e.isDrained || e.isDropped {
		return channel.FrameBytes, true
	}
	return e.outputs[index].Room(), false
}

func (e *Execution) take(index int, output []byte) {
	e.update(func() {
		e.lastOutput = time.Now()
		if e.isDrained || e.isDropped || len(output) > e.outputs[index].Room() {
			return
		}
		e.outputs[index].Append(output)
	})
}

// readBorrowed waits for output and only then takes a buffer, so that a silent command holds none. Whoever gets
// bytes carries them until they are handed over.
func (e *Execution) readBorrowed(file *os.File, most int) (frame *[channel.FrameBytes]byte, count int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	if most > channel.FrameBytes {
		most = channel.FrameBytes
	}
	waiting := raw.Read(func(fd uintptr) bool {
		frame = channel.BorrowFrame()
		e.carrying.Add(1)
		count, err = syscall.Read(int(fd), frame[:most])
		if count <= 0 {
			e.carrying.Add(-1)
			channel.ReturnFrame(frame)
		}
		return err != syscall.EAGAIN && err != syscall.EINTR && !(err == syscall.EIO && !e.mainHasEnded())
	})
	if waiting != nil {
		return nil, 0, waiting
	}
	return frame, count, err
}

// mainHasEnded decides what EIO of a terminal means: nobody has it open, which is its end only
// when the command is over. Before that somebody may open it again.
func (e *Execution) mainHasEnded() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.hasEnded
}

const endOfTransmission = 4

// pumpInput writes what the host sends. At its end a pipe is closed; a terminal is told with ^D.
func (e *Execution) pumpInput(streams *stdio) {
	var buffer [4096]byte
	isWhole, isRefused := false, false
	for {
		count, err := e.input.Read(buffer[:])
		if err != nil {
			isWhole = err == io.EOF
			break
		}
		if !isRefused {
			// Once the command reads no more, what still comes is taken and thrown away.
			_, err = streams.input.Write(buffer[:count])
			isRefused = err != nil
		}
	}
	if !streams.isPty {
		streams.input.Close()
	} else if isWhole {
		streams.input.Write([]byte{endOfTransmission})
	}
}

// limitGroup sets the limits that hold for the command as a whole.
func limitGroup(request *wire.Exec, group *cgroup.Group) error {
	for _, limit := range request.Limits {
		var err error
		switch limit.Resource {
		case wire.LimitProcesses:
			err = group.LimitProcesses(limit.Value)
		case wire.LimitMemory:
			err = group.LimitMemory(limit.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
