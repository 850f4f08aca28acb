package nsexec

import (
	"os"
	"syscall"
	"time"

	"crucible.dev/agent/command"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

// caller is a program of the first world that waits for a command in another. Nothing it says is believed.
type caller struct {
	fd   int
	file *os.File
}

// request reads what is asked and the standard streams that come with it, which the taker closes.
func (c *caller) request() (*wire.ExecIn, []int, error) {
	c.file.SetReadDeadline(time.Now().Add(requestWait))
	body := make([]byte, requestMost+1)
	rights := make([]byte, syscall.CmsgSpace(4*streamsOfAll))
	var count, rightsCount, flags int
	var err error
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	waiting := raw.Read(func(fd uintptr) bool {
		count, rightsCount, flags, _, err = syscall.Recvmsg(int(fd), body, rights, syscall.MSG_CMSG_CLOEXEC)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	if waiting != nil {
		return nil, nil, waiting
	}
	if err != nil {
		return nil, nil, err
	}
	streams := descriptors(rights[:rightsCount])
	if count > requestMost || flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 || len(streams) != streamsOfAll {
		return nil, streams, failure.New(failure.BadRequest, "not a command with three streams")
	}
	request := &wire.ExecIn{}
	if err := wire.Decode(body[:count], request); err != nil {
		return nil, streams, failure.New(failure.BadRequest, err.Error())
	}
	return request, streams, nil
}

func descriptors(rights []byte) (found []int) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for _, message := range messages {
		if fds, err := syscall.ParseUnixRights(&message); err == nil {
			found = append(found, fds...)
		}
	}
	return found
}

// checkStream refuses a directory: through it the other world could walk about in this one's files.
func checkStream(fd int) error {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return failure.About(err, "standard streams")
	}
	if stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return failure.New(failure.BadRequest, "a directory cannot be a standard stream of another image's command")
	}
	return nil
}

// forward passes signals on until the command has ended. A caller that is gone takes the command with it.
func (c *caller) forward(process *command.Process, ended <-chan struct{}) {
	c.file.SetReadDeadline(time.Time{})
	var number [1]byte
	for {
		count, err := c.file.Read(number[:])
		select {
		case <-ended:
			return
		default:
		}
		if err != nil || count == 0 {
			process.Signal(int(syscall.SIGKILL))
			return
		}
		if number[0] >= 1 && number[0] <= 64 {
			process.Signal(int(number[0]))
		}
	}
}

func (c *caller) answer(kind byte, message wire.Message) {
	c.file.SetWriteDeadline(time.Now().Add(requestWait))
	c.file.Write(wire.AppendBody([]byte{kind}, message))
}

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		syscall.Close(fd)
	}
}
