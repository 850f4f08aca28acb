package channel

import (
	"syscall"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

const pageBytes = 4096

// Exchange is the disk on which the host lays down large input. Reading it spares the port, which
// hands over 4 KiB at a time.
type Exchange struct {
	fd   int
	page []byte // aligned as direct reads want it, and big enough for one window
}

// OpenExchange returns an exchange that refuses everything when the machine has no such disk.
func OpenExchange(path string) *Exchange {
	// Direct, because a page that was read once would otherwise be remembered when the host has
	// long written something else there.
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECT|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &Exchange{fd: -1}
	}
	page, err := syscall.Mmap(-1, 0, wire.WindowBytes,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		syscall.Close(fd)
		return &Exchange{fd: -1}
	}
	return &Exchange{fd: fd, page: page}
}

// Fetch returns the bytes of a place. They are good until the next call.
func (e *Exchange) Fetch(place wire.Place) ([]byte, error) {
	if e.fd < 0 {
		return nil, failure.New(failure.BadRequest, "this machine has no exchange")
	}
	if place.Length == 0 || place.Length > wire.WindowBytes || place.Offset%pageBytes != 0 {
		return nil, failure.New(failure.BadRequest, "no such place in the exchange")
	}
	length := int(place.Length)
	wanted := e.page[:(length+pageBytes-1)/pageBytes*pageBytes]
	for done := 0; done < length; {
		count, err := syscall.Pread(e.fd, wanted[done:], int64(place.Offset)+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if err != nil || count == 0 {
			return nil, failure.New(failure.IO, "the exchange cannot be read there")
		}
		done += count
	}
	return wanted[:length], nil
}
