// Package linux holds the system calls that the standard library lacks. Each is one call with Go
// types; policy belongs to the callers.
package linux

import (
	"syscall"
	"unsafe"
)

// These have the same number on every architecture.
const (
	sysPidfdOpen  = 434
	sysOpenat2    = 437
	sysFaccessat2 = 439
	sysMadvise    = syscall.SYS_MADVISE
)

const (
	AtFdcwd           = -0x64
	AtSymlinkNofollow = 0x100
	AtRemovedir       = 0x200
	AtEaccess         = 0x200
	AtEmptyPath       = 0x1000

	OPath = 0x200000

	CloneNewns  = 0x00020000
	CloneNewuts = 0x04000000
	CloneNewipc = 0x08000000
	CloneNewpid = 0x20000000

	ResolveNoMagiclinks = 0x02
	ResolveBeneath      = 0x08
	ResolveInRoot       = 0x10
)

func asError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// Setns moves the calling thread into a namespace (a process namespace: its future children).
func Setns(fd int, kind int) error {
	_, _, errno := syscall.RawSyscall(sysSetns, uintptr(fd), uintptr(kind), 0)
	return asError(errno)
}

// FinitModule loads a kernel module from an open file.
func FinitModule(fd int) error {
	parameters := [1]byte{}
	_, _, errno := syscall.Syscall(sysFinitModule, uintptr(fd), uintptr(unsafe.Pointer(&parameters)), 0)
	return asError(errno)
}

// IsReadable tells, without waiting, whether a read of fd would give something, its end included.
func IsReadable(fd int) bool {
	const pollIn = 1
	asked := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: pollIn}
	var now syscall.Timespec
	count, _, _ := syscall.Syscall6(
		syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&asked)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return count == 1
}

// Syncfs writes everything of the filesystem that fd is on to its device.
func Syncfs(fd int) error {
	_, _, errno := syscall.Syscall(sysSyncfs, uintptr(fd), 0, 0)
	return asError(errno)
}

// PidfdOpen returns a descriptor that becomes readable when the process ends.
func PidfdOpen(pid int) (int, error) {
	fd, _, errno := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	return int(fd), asError(errno)
}

// OpenBeneath opens a path below a directory and refuses, with EXDEV, whatever would leave it.
func OpenBeneath(directory int, path string, flags int, mode uint32) (int, error) {
	return openat2(directory, path, flags, mode, ResolveBeneath|ResolveNoMagiclinks)
}

// OpenInRoot opens a path as a process would whose root is that directory.
func OpenInRoot(root int, path string, flags int) (int, error) {
	return openat2(root, path, flags, 0, ResolveInRoot|ResolveNoMagiclinks)
}

func openat2(directory int, path string, flags int, mode uint32, resolve uint64) (int, error) {
	pointer, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := struct{ flags, mode, resolve uint64 }{uint64(flags | syscall.O_CLOEXEC), uint64(mode), resolve}
	for {
		fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(directory), uintptr(unsafe.Pointer(pointer)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno != syscall.EAGAIN && errno != syscall.EINTR { // EAGAIN: a rename raced with a `..`
			return int(fd), asError(errno)
		}
	}
}

// CanExecute asks whether the thread's filesystem identity may execute path.
func CanExecute(path string) error {
	pointer, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	at, executable := AtFdcwd, 1
	_, _, errno := syscall.RawSyscall6(sysFaccessat2, uintptr(at), uintptr(unsafe.Pointer(pointer)),
		uintptr(executable), AtEaccess, 0, 0)
	return asError(errno)
}

// Prlimit sets a resource limit of another process.
func Prlimit(pid int, resource int, limit syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource),
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return asError(errno)
}

// Prctl is for the operations that take plain numbers.
func Prctl(operation, argument uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, operation, argument, 0, 0, 0, 0)
	return asError(errno)
}

// Ioctl passes a pointer to the kernel.
func Ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	return asError(errno)
}

// IoctlNumber passes a plain number and returns what the kernel answers.
func IoctlNumber(fd int, request, argument uintptr) (int, error) {
	answer, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, argument)
	return int(answer), asError(errno)
}

const (
	ClockRealtime = 0
	ClockBoottime = 7
)

// ClockSet sets the wall clock.
func ClockSet(nanoseconds uint64) error {
	moment := syscall.NsecToTimespec(int64(nanoseconds))
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_SETTIME, ClockRealtime, uintptr(unsafe.Pointer(&moment)), 0)
	return asError(errno)
}

// ClockNanoseconds reads a clock of the kernel.
func ClockNanoseconds(clock int) uint64 {
	var moment syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&moment)), 0)
	return uint64(moment.Nano())
}

// IgnoreEverySignal also makes the kernel reap this process's children by itself (SIGCHLD ignored).
// It goes around Go's own handlers, which would let SIGSEGV from a user end the process.
func IgnoreEverySignal() {
	action := [4]uintptr{1} // SIG_IGN; flags, restorer and mask stay zero on both architectures
	for signal := uintptr(1); signal <= 64; signal++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// LeaveSignal gives a signal its default meaning, around Go's own handler.
func LeaveSignal(signal syscall.Signal) {
	action := [4]uintptr{0} // SIG_DFL
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// SleepForever blocks without a timer, so that the process never wakes.
func SleepForever() {
	for {
		syscall.Syscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// KillGroup signals a process group.
func KillGroup(pid, signal int) error {
	return syscall.Kill(-pid, syscall.Signal(signal))
}
