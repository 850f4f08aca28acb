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

	bpfMapTypeArray   = 2
	bpfMapTypeSockmap = 15
	bpfMapMmapable    = 1 << 10
)

// Hook is a place where the kernel runs a program: the kind of program, and which of its kind.
type Hook struct{ kind, attach uint32 }

var (
	HookSkLookup   = Hook{30, 36} // of a network namespace: which socket gets a connection
	HookConnectV4  = Hook{18, 10} // of a group of processes: whether a socket may connect
	HookConnectV6  = Hook{18, 11}
	HookDatagramV4 = Hook{18, 14} // or send to an address without connecting
)

// Instruction is one of the kernel's virtual machine.
type Instruction struct {
	Code      uint8
	Registers uint8 // destination in the low half, source in the high one
	Offset    int16
	Immediate int32
}

// SocketMap makes a map from small numbers to sockets.
func SocketMap(size uint32) (int, error) { return newMap(bpfMapTypeSockmap, size, 0) }

// Flag makes a map of one number, which is zero, and shows it in our memory.
func Flag() (fd int, value *uint32, err error) {
	if fd, err = newMap(bpfMapTypeArray, 1, bpfMapMmapable); err != nil {
		return -1, nil, err
	}
	page, err := syscall.Mmap(fd, 0, syscall.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		syscall.Close(fd)
		return -1, nil, err
	}
	return fd, (*uint32)(unsafe.Pointer(&page[0])), nil
}

func newMap(kind, size, flags uint32) (int, error) {
	request := struct{ kind, keySize, valueSize, entries, flags uint32 }{kind, 4, 4, size, flags}
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

// Hang has the kernel check a program and run it at a hook of target, a namespace or a group, for as long
// as we live.
func Hang(hook Hook, target int, program []Instruction) error {
	license := [4]byte{'M', 'I', 'T'}
	load := struct {
		kind, count           uint32
		instructions, license unsafe.Pointer
		logLevel, logSize     uint32
		log                   unsafe.Pointer
		version, flags        uint32
		name                  [16]byte
		device, attach        uint32
	}{
		kind: hook.kind, count: uint32(len(program)), attach: hook.attach,
		instructions: unsafe.Pointer(&program[0]), license: unsafe.Pointer(&license),
	}
	fd, err := bpf(bpfProgLoad, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	link := struct{ program, target, attach, flags uint32 }{uint32(fd), uint32(target), hook.attach, 0}
	_, err = bpf(bpfLinkCreate, unsafe.Pointer(&link), unsafe.Sizeof(link)) // its descriptor stays open
	return err
}

func bpf(command uintptr, request unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := syscall.Syscall(sysBpf, command, uintptr(request), size)
	return int(fd), asError(errno)
}
