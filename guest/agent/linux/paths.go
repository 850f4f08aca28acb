package linux

import (
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// The calls below act on a name in an open directory and never follow a symlink in its last part.

// at takes plain numbers only: a pointer must be converted in the very call that uses it.
func at(number uintptr, directory int, name string, first, second, third int) error {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(number, uintptr(directory), uintptr(unsafe.Pointer(pointer)),
		uintptr(first), uintptr(second), uintptr(third), 0)
	return asError(errno)
}

func UnlinkAt(directory int, name string, flags int) error {
	return at(syscall.SYS_UNLINKAT, directory, name, flags, 0, 0)
}

func ChownAt(directory int, name string, uid, gid int) error {
	return at(syscall.SYS_FCHOWNAT, directory, name, uid, gid, AtSymlinkNofollow)
}

func MknodAt(directory int, name string, mode uint32) error {
	return at(syscall.SYS_MKNODAT, directory, name, int(mode), 0, 0)
}

// SetMtimeAt sets the modification time and leaves the access time alone. An empty name is the
// directory itself.
func SetMtimeAt(directory int, name string, mtime syscall.Timespec) error {
	const omit = 1<<30 - 2
	times := [2]syscall.Timespec{{Nsec: omit}, mtime}
	var pointer *byte
	flags := 0
	if name != "" {
		var err error
		if pointer, err = syscall.BytePtrFromString(name); err != nil {
			return err
		}
		flags = AtSymlinkNofollow
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(directory), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&times)), uintptr(flags), 0, 0)
	return asError(errno)
}

func SymlinkAt(target string, directory int, name string) error {
	old, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(old)), uintptr(directory),
		uintptr(unsafe.Pointer(pointer)))
	return asError(errno)
}

func LinkAt(oldDirectory int, oldName string, newDirectory int, newName string) error {
	old, err := syscall.BytePtrFromString(oldName)
	if err != nil {
		return err
	}
	pointer, err := syscall.BytePtrFromString(newName)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_LINKAT, uintptr(oldDirectory), uintptr(unsafe.Pointer(old)),
		uintptr(newDirectory), uintptr(unsafe.Pointer(pointer)), 0, 0)
	return asError(errno)
}

func ReadlinkAt(directory int, name string) (string, error) {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	target := make([]byte, 4096)
	length, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(directory), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&target[0])), uintptr(len(target)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(target[:length]), nil
}

// LstatAt looks at a name without following it; an empty name is the directory itself.
func LstatAt(directory int, name string) (stat syscall.Stat_t, err error) {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return stat, err
	}
	_, _, errno := syscall.Syscall6(sysFstatat, uintptr(directory), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&stat)), AtSymlinkNofollow|AtEmptyPath, 0, 0)
	return stat, asError(errno)
}

const (
	attributesUsual = 256
	attributesMost  = 64 << 10
)

// ListAttributes names the extended attributes of what has this name in an open directory.
func ListAttributes(directory int, name string) ([]string, error) {
	listed, err := attribute(syscall.SYS_LLISTXATTR, directory, name, "")
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, each := range strings.Split(string(listed), "\x00") {
		if each != "" {
			names = append(names, each)
		}
	}
	return names, nil
}

// GetAttribute reads one of them.
func GetAttribute(directory int, name, key string) ([]byte, error) {
	return attribute(syscall.SYS_LGETXATTR, directory, name, key)
}

// attribute goes through /proc, because these calls take no open directory. Nothing in front of the
// last part can be a link of the user's.
func attribute(number uintptr, directory int, name, key string) ([]byte, error) {
	path, err := syscall.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(directory) + "/" + name)
	if err != nil {
		return nil, err
	}
	pointer, err := syscall.BytePtrFromString(key)
	if err != nil {
		return nil, err
	}
	for size := attributesUsual; ; size = attributesMost {
		buffer := make([]byte, size)
		var length uintptr
		var errno syscall.Errno
		if number == syscall.SYS_LLISTXATTR {
			length, _, errno = syscall.Syscall(number, uintptr(unsafe.Pointer(path)),
				uintptr(unsafe.Pointer(&buffer[0])), uintptr(size))
		} else {
			length, _, errno = syscall.Syscall6(number, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(pointer)),
				uintptr(unsafe.Pointer(&buffer[0])), uintptr(size), 0, 0)
		}
		if errno == syscall.ERANGE && size < attributesMost {
			continue
		}
		if errno != 0 {
			return nil, errno
		}
		return buffer[:length], nil
	}
}
