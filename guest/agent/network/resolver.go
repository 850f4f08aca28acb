package network

import (
	"encoding/binary"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"crucible.dev/agent/dns"
)

const (
	questionMost = 1500 // of a datagram or a message in a stream
	streamsMost  = 32   // of questions over TCP, at once
	streamIdle   = 10 * time.Second
)

// resolver serves the resolver's answers. One goroutine does all datagrams, one after the other: a flood
// of questions fills the kernel's queue and nothing else.
type resolver struct {
	dns.Resolver
	questions syscall.RawConn
	answers   int // a raw socket
	streams   atomic.Int32
}

func openResolver(names *dns.Table, questions int) (*resolver, error) {
	answers, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, syscall.IPPROTO_RAW)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	_, raw, err := pollable(questions)
	return &resolver{Resolver: dns.Resolver{Names: names}, questions: raw, answers: answers}, err
}

func (r *resolver) serve() {
	buffer := make([]byte, questionMost)
	for {
		count, from, err := r.nextQuestion(buffer)
		if err != nil {
			time.Sleep(shortPause)
			continue
		}
		asker, ok := from.(*syscall.SockaddrInet4)
		if !ok {
			continue
		}
		if answer := r.Answer(buffer[:count]); answer != nil {
			// A full queue loses the answer, and whoever asked will ask again.
			syscall.Sendto(r.answers, datagram(asker, answer), 0, &syscall.SockaddrInet4{Addr: asker.Addr})
		}
	}
}

func (r *resolver) nextQuestion(buffer []byte) (count int, from syscall.Sockaddr, err error) {
	waiting := r.questions.Read(func(fd uintptr) bool {
		count, from, err = syscall.Recvfrom(int(fd), buffer, 0)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	if waiting != nil {
		return 0, nil, waiting
	}
	return count, from, err
}

// takeStream answers questions over TCP until the program ends or falls silent.
func (r *resolver) takeStream(file *os.File) {
	if r.streams.Add(1) > streamsMost {
		r.streams.Add(-1)
		reset(file)
		return
	}
	go func() {
		defer r.streams.Add(-1)
		defer file.Close()
		for r.answerOne(file) == nil {
		}
	}()
}

func (r *resolver) answerOne(file *os.File) error {
	file.SetDeadline(time.Now().Add(streamIdle))
	var length [2]byte
	if _, err := io.ReadFull(file, length[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint16(length[:])
	if size > questionMost {
		return syscall.EMSGSIZE
	}
	question := make([]byte, size)
	if _, err := io.ReadFull(file, question); err != nil {
		return err
	}
	answer := r.Answer(question)
	if answer == nil {
		return syscall.EBADMSG
	}
	_, err := file.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}
