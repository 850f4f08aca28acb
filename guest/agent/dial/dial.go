// Package dial joins a stream to a server of the user's inside the machine.
package dial

import (
	"io"
	"os"
	"syscall"
	"time"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

const (
	patience   = 10 * time.Second // a full backlog does not answer at once
	copyBuffer = 16 << 10
)

// Serve connects to a port of the loopback and carries bytes both ways until both sides have ended.
func Serve(request *wire.Dial, stream *channel.Stream) error {
	socket, err := connect(request.Port)
	if err != nil {
		return failure.New(failure.Refused, err.Error())
	}
	defer socket.Close()
	if err := stream.Tell(wire.NoteConnected, &wire.Empty{}); err != nil {
		return err
	}
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-stream.Gone():
			socket.Close() // wakes both directions
		case <-finished:
		}
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send(stream, socket)
	}()
	err = receive(stream, socket)
	<-sent
	return err
}

// send gives the program what the host sends, and its end.
func send(stream *channel.Stream, socket *os.File) {
	buffer := make([]byte, copyBuffer)
	for {
		count, err := stream.Input.Read(buffer)
		if err == io.EOF {
			shutdownWriting(socket)
		}
		if err != nil {
			return
		}
		if _, err := socket.Write(buffer[:count]); err != nil {
			stream.Input.Close(err) // the program reads no more
			return
		}
	}
}

// receive sends on every piece as it comes: whoever dials is waiting for it.
func receive(stream *channel.Stream, socket *os.File) error {
	output := stream.Output()
	output.Open()
	for {
		count, err := socket.Read(output.Space())
		if count > 0 {
			if err := output.Add(count); err != nil {
				return err
			}
			if err := output.Flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return output.End() // a reset is an end too
		}
	}
}

func connect(port uint16) (*os.File, error) {
	socket, err := connectTo(syscall.AF_INET, &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		return socket, nil
	}
	socket, second := connectTo(syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}})
	if second == nil {
		return socket, nil
	}
	return nil, err
}

func connectTo(family int, address syscall.Sockaddr) (*os.File, error) {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	err = syscall.Connect(fd, address)
	file := os.NewFile(uintptr(fd), "dial")
	if err == syscall.EINPROGRESS {
		err = awaitConnection(file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func awaitConnection(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	file.SetWriteDeadline(time.Now().Add(patience))
	defer file.SetWriteDeadline(time.Time{})
	refused := 0
	err = raw.Write(func(fd uintptr) bool {
		refused, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		_, peerless := syscall.Getpeername(int(fd))
		return refused != 0 || peerless == nil
	})
	if err != nil {
		return syscall.ETIMEDOUT
	}
	if refused != 0 {
		return syscall.Errno(refused)
	}
	return nil
}

func shutdownWriting(file *os.File) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_WR) })
	}
}
