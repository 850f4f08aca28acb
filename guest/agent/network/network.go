// Package network gives programs a way out without a network card. Every TCP connection that is not
// for the machine itself is taken by a socket of ours, and the host is asked for it by the name that was
// looked up; nothing else has a way at all.
package network

import (
	"os"
	"sync"
	"syscall"
	"time"

	"crucible.dev/agent/dns"
	"crucible.dev/agent/failure"
)

const (
	pendingMost = 512              // connections that wait for the host's answer
	patience    = 60 * time.Second // how long each of them waits
	shortPause  = 10 * time.Millisecond
)

// Network is off until a host listens.
type Network struct {
	names    *dns.Table
	resolver *resolver
	gate     gate
	windows  windows
	broken   error // why there can be no network

	mutex   sync.Mutex
	ear     *ear // of the host that listens
	last    uint32
	pending map[uint32]*connection
}

// connection is one that a program has made and the host has not ended.
type connection struct {
	number  uint32
	name    string
	address []byte
	port    uint16
	file    *os.File
	raw     syscall.RawConn
	release func() // of the name
	giveUp  *time.Timer
}

// Open prepares everything but the way out itself, so that it is part of every template. A kernel that
// lacks something costs the network, not the machine.
func Open() *Network {
	names := dns.NewTable()
	network := &Network{names: names, pending: map[uint32]*connection{}}
	network.broken = network.open()
	return network
}

func (n *Network) open() error {
	v4, err := bindV4(syscall.SOCK_STREAM)
	if err != nil {
		return err
	}
	v6, err := bindV6(syscall.SOCK_STREAM)
	if err != nil {
		v6 = -1 // a kernel without it
	}
	questions, err := bindV4(syscall.SOCK_DGRAM)
	if err != nil {
		return err
	}
	if n.gate, err = newGate(); err != nil {
		return os.NewSyscallError("gate", err)
	}
	if err := steer([slots]int{slotV4: v4, slotV6: v6, slotNames: questions}, n.gate.fd); err != nil {
		return os.NewSyscallError("sk_lookup", err)
	}
	if err := n.gate.tellUnreachable(); err != nil {
		return os.NewSyscallError("connect hook", err)
	}
	if err := makeAllOurs(v6 >= 0); err != nil {
		return err
	}
	if n.resolver, err = openResolver(n.names, questions); err != nil {
		return err
	}
	go n.resolver.serve()
	for _, socket := range []int{v4, v6} {
		if socket < 0 {
			continue
		}
		_, listener, err := pollable(socket)
		if err != nil {
			return err
		}
		go n.acceptAll(listener)
	}
	return nil
}

func (n *Network) acceptAll(listener syscall.RawConn) {
	for {
		socket, err := accept(listener)
		if err != nil {
			time.Sleep(shortPause) // out of memory or descriptors, as a rule
			continue
		}
		n.welcome(socket)
	}
}

// welcome looks at what was dialled and finds out who answers: the host, the resolver or nobody.
func (n *Network) welcome(socket int) {
	address, port, err := dialled(socket)
	file, raw, unusable := pollable(socket)
	if unusable != nil {
		return
	}
	if err != nil {
		reset(file)
		return
	}
	syscall.SetsockoptInt(socket, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	made := &connection{address: address, port: port, file: file, raw: raw, release: func() {}}
	switch number, isV4 := numberOf(address); {
	case isV4 && number == asNumber(namesAddress) && port == namesPort:
		n.resolver.takeStream(file)
		return
	case isV4 && number.IsMadeUp():
		name, release, ok := n.names.Hold(number)
		if !ok {
			reset(file) // an address of nobody, or no longer of anybody
			return
		}
		made.name, made.release = name, release
	case isV4 && number&^0xff == asNumber(ownAddress)&^0xff:
		reset(file)
		return
	}
	if !n.announce(made) {
		made.reset()
	}
}

// announce queues a connection for the host; false when nobody listens or too many wait.
func (n *Network) announce(made *connection) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.ear == nil || len(n.pending) >= pendingMost {
		return false
	}
	n.last++
	made.number = n.last
	select {
	case n.ear.asks <- made:
	default:
		return false
	}
	n.pending[made.number] = made
	made.giveUp = time.AfterFunc(patience, func() { n.Refuse(made.number) })
	return true
}

// claim takes a connection out of those that wait.
func (n *Network) claim(number uint32) (*connection, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	made := n.pending[number]
	if made == nil {
		return nil, failure.New(failure.NotFound, "no connection of this number waits")
	}
	delete(n.pending, number)
	made.giveUp.Stop()
	return made, nil
}

// Refuse resets a connection that waits.
func (n *Network) Refuse(number uint32) error {
	made, err := n.claim(number)
	if err == nil {
		made.reset()
	}
	return err
}

func (n *Network) isPending(made *connection) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.pending[made.number] == made
}

func (c *connection) reset() {
	reset(c.file)
	c.release()
}

func (c *connection) close() {
	c.file.Close()
	c.release()
}

// dialled is the address that a program meant to reach: the socket's own.
func dialled(socket int) (address []byte, port uint16, err error) {
	name, err := syscall.Getsockname(socket)
	switch name := name.(type) {
	case *syscall.SockaddrInet4:
		return name.Addr[:], uint16(name.Port), nil
	case *syscall.SockaddrInet6:
		return name.Addr[:], uint16(name.Port), nil
	}
	return nil, 0, err
}

func numberOf(address []byte) (dns.Address, bool) {
	if len(address) != 4 {
		return 0, false
	}
	return asNumber([4]byte(address)), true
}

func asNumber(address [4]byte) dns.Address {
	return dns.Address(address[0])<<24 | dns.Address(address[1])<<16 | dns.Address(address[2])<<8 | dns.Address(address[3])
}
