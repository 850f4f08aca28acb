package linux

import (
	"syscall"
	"unsafe"
)

const (
	bpfMapCreate  = 0
	bpfMapUpdate  = 2
	bpfProgLoad   = 5
	bpfLinkCreate = 28

	bpfMapTypeSockmap   = 15
	bpfProgTypeSkLookup = 30
	bpfAttachSkLookup   = 36
)

// Instruction is one of the kernel's virtual machine.
type Instruction struct {
	Code      uint8
	Registers uint8 // destination in the low half, source in the high one
	Offset    int16
	Immediate int32
}

// SocketMap makes a map from small numbers to sockets.
func SocketMap(size uint32) (int, error) {
	request := struct{ kind, keySize, valueSize, entries, flags uint32 }{bpfMapTypeSockmap, 4, 4, size, 0}
	return bpf(bpfMapCreate, unsafe.Pointer(&request), unsafe.Sizeof(request))
}

// SocketMapPut puts a socket under a number.
func SocketMapPut(sockets int, key uint32, socket int) error {
	value := uint32(socket)
	request := struct {
		fd, _      uint32
		key, value unsafe.Pointer
		flags      uint64
	}{fd: uint32(sockets), key: unsafe.Pointer(&key), value: unsafe.Pointer(&value)}
	_, err := bpf(bpfMapUpdate, unsafe.Pointer(&request), unsafe.Sizeof(request))
	return err
}

// LoadSkLookup checks a program that chooses the socket for a connection.
func LoadSkLookup(program []Instruction) (int, error) {
	license := [4]byte{'M', 'I', 'T'}
	request := struct {
		kind, count           uint32
		instructions, license unsafe.Pointer
		logLevel, logSize     uint32
		log                   unsafe.Pointer
		version, flags        uint32
		name                  [16]byte
		device, attach        uint32
	}{
		kind: bpfProgTypeSkLookup, count: uint32(len(program)), attach: bpfAttachSkLookup,
		instructions: unsafe.Pointer(&program[0]), license: unsafe.Pointer(&license),
	}
	return bpf(bpfProgLoad, unsafe.Pointer(&request), unsafe.Sizeof(request))
}

// AttachSkLookup puts such a program in charge of a network namespace, for as long as the returned
// descriptor is open.
func AttachSkLookup(program, namespace int) (int, error) {
	request := struct{ program, target, attach, flags uint32 }{uint32(program), uint32(namespace), bpfAttachSkLookup, 0}
	return bpf(bpfLinkCreate, unsafe.Pointer(&request), unsafe.Sizeof(request))
}

func bpf(command uintptr, request unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := syscall.Syscall(sysBpf, command, uintptr(request), size)
	return int(fd), asError(errno)
}
