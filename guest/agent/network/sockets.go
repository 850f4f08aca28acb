package network

import (
	"encoding/binary"
	"os"
	"syscall"
)

var (
	ownAddress   = [4]byte{198, 18, 0, 1}
	namesAddress = [4]byte{198, 18, 0, 2}
	// Addresses that no program dials, of the ranges that are set aside for measuring networks. What we
	// bind there is out of the way of the user's own servers, but for one port that nobody uses.
	hiddenV4 = namesAddress
	hiddenV6 = [16]byte{0: 0x20, 1: 0x01, 3: 0x02, 15: 0x02}
)

const (
	hiddenPort = 1
	namesPort  = 53
	backlog    = 512

	ipFreebind      = 15
	ipTransparent   = 19
	ipv6Transparent = 75
)

func bindV4(kind int) (int, error) {
	return bound(syscall.AF_INET, kind, &syscall.SockaddrInet4{Port: hiddenPort, Addr: hiddenV4})
}

func bindV6(kind int) (int, error) {
	return bound(syscall.AF_INET6, kind, &syscall.SockaddrInet6{Port: hiddenPort, Addr: hiddenV6})
}

// bound makes a socket that may speak for any address.
func bound(family, kind int, address syscall.Sockaddr) (int, error) {
	socket, err := syscall.Socket(family, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// Connections inherit it, and then do not keep a server of the user's from their port.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_IP, ipFreebind, 1)
	}
	if err == nil && family == syscall.AF_INET {
		err = syscall.SetsockoptInt(socket, syscall.SOL_IP, ipTransparent, 1)
	}
	if err == nil && family == syscall.AF_INET6 {
		syscall.SetsockoptInt(socket, syscall.SOL_IPV6, syscall.IPV6_V6ONLY, 1)
		err = syscall.SetsockoptInt(socket, syscall.SOL_IPV6, ipv6Transparent, 1)
	}
	if err == nil {
		err = syscall.Bind(socket, address)
	}
	if err == nil && kind == syscall.SOCK_STREAM {
		err = syscall.Listen(socket, backlog)
	}
	if err != nil {
		syscall.Close(socket)
		return -1, os.NewSyscallError("bind", err)
	}
	return socket, nil
}

// pollable lets a goroutine wait for a socket without holding a thread.
func pollable(socket int) (*os.File, syscall.RawConn, error) {
	file := os.NewFile(uintptr(socket), "socket")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
	}
	return file, raw, err
}

// accept waits for the next connection.
func accept(listener syscall.RawConn) (socket int, err error) {
	waiting := listener.Read(func(fd uintptr) bool {
		socket, _, err = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		return err != syscall.EAGAIN && err != syscall.EINTR && err != syscall.ECONNABORTED
	})
	if waiting != nil {
		return -1, waiting
	}
	return socket, err
}

// readSome waits for bytes and puts them where space says, which is asked for only when there are some.
func readSome(raw syscall.RawConn, space func() []byte, release func()) (count int, err error) {
	waiting := raw.Read(func(fd uintptr) bool {
		count, err = syscall.Read(int(fd), space())
		if err == syscall.EAGAIN || err == syscall.EINTR {
			release()
			return false
		}
		return true
	})
	if waiting != nil {
		return 0, waiting
	}
	return count, err
}

// writeSome waits until the other side takes bytes and returns how many.
func writeSome(raw syscall.RawConn, data []byte) (count int, err error) {
	waiting := raw.Write(func(fd uintptr) bool {
		count, err = syscall.Write(int(fd), data)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
	if waiting != nil {
		return 0, waiting
	}
	return count, err
}

// reset closes a connection so that its program gets an error, not an end.
func reset(file *os.File) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		})
	}
	file.Close()
}

func shutdownWriting(raw syscall.RawConn) {
	raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_WR) })
}

// datagram writes the headers of an answer that seems to come from the name server, which is bound to
// another port so that the user can have a server on this one.
func datagram(to *syscall.SockaddrInet4, payload []byte) []byte {
	const ipBytes, udpBytes, hops = 20, 8, 64
	total := ipBytes + udpBytes + len(payload)
	packet := make([]byte, ipBytes, total)
	packet[0] = 4<<4 | ipBytes/4
	packet[8], packet[9] = hops, syscall.IPPROTO_UDP // the kernel fills in lengths and sums
	copy(packet[12:], namesAddress[:])
	copy(packet[16:], to.Addr[:])
	packet = binary.BigEndian.AppendUint16(packet, namesPort)
	packet = binary.BigEndian.AppendUint16(packet, uint16(to.Port))
	packet = binary.BigEndian.AppendUint16(packet, uint16(udpBytes+len(payload)))
	packet = append(packet, 0, 0) // no sum: it would only guard the way through our own memory
	return append(packet, payload...)
}
