package command

import (
	"os"
	"syscall"
	"unsafe"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

const ttyGroup = 5

// stdio are the agent's ends of a command's standard streams and, until it runs, the command's.
type stdio struct {
	isPty  bool
	input  *os.File // nil when the command reads nothing
	output *os.File
	errors *os.File // nil with a pty
	child  [3]int
	owned  []int
}

func (s *Starter) openStdio(request *wire.Exec, account accounts.Account) (*stdio, error) {
	if request.Flags&wire.ExecPty != 0 {
		return openPty(request, account)
	}
	streams := &stdio{child: [3]int{s.nullFd, -1, -1}}
	var err error
	if request.Flags&wire.ExecInput != 0 {
		if streams.child[0], streams.input, err = pipeToChild(); err != nil {
			return nil, err
		}
		streams.owned = append(streams.owned, streams.child[0])
	}
	for index, target := range []**os.File{&streams.output, &streams.errors} {
		fd, file, err := pipeFromChild()
		if err != nil {
			streams.closeChildSide()
			streams.close()
			return nil, err
		}
		*target = file
		streams.child[index+1] = fd
		streams.owned = append(streams.owned, fd)
	}
	return streams, nil
}

func pipeToChild() (child int, ours *os.File, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	return ends[0], pollable(ends[1]), nil
}

func pipeFromChild() (child int, ours *os.File, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	return ends[1], pollable(ends[0]), nil
}

// pollable hands a descriptor to Go's poller, so that waiting for it takes no thread.
func pollable(fd int) *os.File {
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "stdio")
}

// openPty makes a terminal in the world's own instance of devpts.
func openPty(request *wire.Exec, account accounts.Account) (*stdio, error) {
	master, err := syscall.Open("/dev/pts/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	unlock := int32(0)
	if err := linux.Ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)); err != nil {
		syscall.Close(master)
		return nil, err
	}
	const tiocgptpeer = 0x5441
	slave, err := linux.IoctlNumber(master, tiocgptpeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if err != nil {
		syscall.Close(master)
		return nil, err
	}
	syscall.Fchown(slave, int(account.Uid), ttyGroup)
	streams := &stdio{isPty: true, child: [3]int{slave, slave, slave}, owned: []int{slave}}
	streams.output = pollable(master)
	if request.Flags&wire.ExecInput != 0 {
		streams.input = streams.output
	}
	streams.resize(request.Rows, request.Columns)
	return streams, nil
}

func (s *stdio) resize(rows, columns uint16) {
	size := [4]uint16{rows, columns}
	if raw, err := s.output.SyscallConn(); err == nil && rows > 0 && columns > 0 {
		raw.Control(func(fd uintptr) { linux.Ioctl(int(fd), syscall.TIOCSWINSZ, unsafe.Pointer(&size)) })
	}
}

// hasMore tells whether output, or its end, waits to be read.
func (s *stdio) hasMore() bool {
	for _, file := range []*os.File{s.output, s.errors} {
		if file == nil {
			continue
		}
		hasMore := false
		if raw, err := file.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { hasMore = linux.IsReadable(int(fd)) })
		}
		if hasMore {
			return true
		}
	}
	return false
}

func (s *stdio) closeChildSide() {
	for _, fd := range s.owned {
		syscall.Close(fd)
	}
	s.owned = nil
}

func (s *stdio) close() {
	for _, file := range []*os.File{s.input, s.output, s.errors} {
		if file != nil {
			file.Close()
		}
	}
}
