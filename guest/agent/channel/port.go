// Package channel carries the frames of the contract over the virtio port: it finds the port,
// meets the host, routes frames to streams and keeps every stream within its window.
package channel

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

const portClass = "/sys/class/virtio-ports/"

// FindPort returns the device of the port with this name.
func FindPort(name string) (string, error) {
	entries, err := os.ReadDir(portClass)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(portClass + entry.Name() + "/name")
		if err == nil && strings.TrimSpace(string(content)) == name {
			return "/dev/" + entry.Name(), nil
		}
	}
	return "", errors.New("no virtio port is named " + name)
}

// Port is the byte stream to the host. Nothing is polled: the kernel wakes us when bytes or room
// arrive and whenever a host attaches or leaves.
type Port struct {
	file   *os.File
	raw    syscall.RawConn
	isAway bool
}

func OpenPort(path string) (*Port, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Port{file: file, raw: raw}, nil
}

// Read waits for bytes. It returns 0 once each time the host has gone away. The first bytes of the
// next host can come before the kernel has noticed it, so only EAGAIN tells that one is there.
func (p *Port) Read(buffer []byte) (count int, err error) {
	waiting := p.raw.Read(func(fd uintptr) bool {
		count, err = syscall.Read(int(fd), buffer)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
			p.isAway = false
			return false
		case err == nil && count == 0:
			wasAway := p.isAway
			p.isAway = true
			return !wasAway
		}
		return true
	})
	if waiting != nil {
		return 0, waiting
	}
	return count, err
}

// WriteSome waits until the host takes bytes and returns how many it took.
func (p *Port) WriteSome(buffer []byte) (count int, err error) {
	waiting := p.raw.Write(func(fd uintptr) bool {
		count, err = syscall.Write(int(fd), buffer)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	if waiting != nil {
		return 0, waiting
	}
	return count, err
}
