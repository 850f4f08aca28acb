package linux

import (
	"syscall"
	"unsafe"
)

const (
	prCapbsetDrop   = 24
	prSetNoNewPrivs = 38
	capabilityLast  = 63
)

// DropBounding takes every capability but those of keep from the thread's bounding set, so that no
// program it starts can have more. The thread's own powers stay.
func DropBounding(keep uint64) error {
	for capability := uintptr(0); capability <= capabilityLast; capability++ {
		if keep&(1<<capability) != 0 {
			continue
		}
		if err := Prctl(prCapbsetDrop, capability); err != nil && err != syscall.EINVAL {
			return err // EINVAL: this kernel has no such capability
		}
	}
	return nil
}

// NoNewPrivileges makes the thread's children keep what they have: no setuid program gives them more.
func NoNewPrivileges() error { return Prctl(prSetNoNewPrivs, 1) }

// SetCapabilities leaves the thread itself with exactly these, and none to inherit.
func SetCapabilities(keep uint64) error {
	header := struct {
		version uint32
		pid     int32
	}{0x20080522, 0}
	low, high := uint32(keep), uint32(keep>>32)
	data := [6]uint32{low, low, 0, high, high, 0} // effective, permitted, inheritable: low half, high half
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&data)), 0)
	return asError(errno)
}
