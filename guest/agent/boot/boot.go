// Package boot brings the machine from an initramfs to a root filesystem, before there is anyone to
// talk to.
package boot

import (
	"os"
	"strings"
	"syscall"
	"unsafe"

	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

const (
	Sysroot    = "/sysroot"
	BootIdFile = "/boot_id"

	image    = "/image"
	disk     = "/disk"
	modules  = "/modules/"
	imageDev = "/dev/vda"
	DiskDev  = "/dev/vdb"

	// ExchangeDev is where the host lays down large input.
	ExchangeDev = "/dev/vdc"
)

// Disk is where the writable filesystem is mounted, Upper what of it lies over the image, and Image
// the image alone.
const (
	Disk  = disk
	Upper = disk + "/upper"
	Image = image
)

// Machine is what was found at boot. Composition is nil where the root is one image.
type Machine struct {
	Composition *wire.Composition
}

// Up mounts the kernel's filesystems, loads modules and assembles the root.
func Up() (*Machine, error) {
	machine := &Machine{}
	for _, step := range []func() error{mountKernel, loadModules, raiseFileLimit, machine.mountRoot, bringUpLoopback} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	// The world shows this file as its boot id; PREPARE rewrites it.
	return machine, os.WriteFile(BootIdFile, make([]byte, 37), 0o444)
}

// Roots are all writable roots, the first one first.
func (m *Machine) Roots() []string {
	roots := []string{Sysroot}
	if m.Composition != nil {
		for _, part := range m.Composition.Parts[1:] {
			roots = append(roots, FurtherRoots+"/"+part.Name)
		}
	}
	return roots
}

func mountKernel() error {
	for _, each := range []struct {
		path, kind string
		flags      uintptr
	}{
		{"/proc", "proc", 0}, {"/sys", "sysfs", 0}, {"/dev", "devtmpfs", 0}, {"/sys/fs/cgroup", "cgroup2", 0},
	} {
		if err := mountAt(each.kind, each.path, each.kind, each.flags, ""); err != nil {
			return err
		}
	}
	openConsole()
	return nil
}

// openConsole sends what Go prints when it panics to the console.
func openConsole() {
	fd, err := syscall.Open("/dev/console", syscall.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return
	}
	for standard := 0; standard < 3; standard++ {
		if fd != standard {
			syscall.Dup3(fd, standard, 0)
		}
	}
	if fd > 2 {
		syscall.Close(fd)
	}
}

// loadModules loads what the order names and then gives its memory back.
func loadModules() error {
	order, err := os.ReadFile(modules + "order")
	if os.IsNotExist(err) {
		return nil // a kernel that has everything built in
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		if err := loadModule(modules + name); err != nil {
			return &os.PathError{Op: "load", Path: name, Err: err}
		}
	}
	return os.RemoveAll(modules)
}

func loadModule(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := linux.FinitModule(int(file.Fd())); err != nil && err != syscall.EEXIST {
		return err
	}
	return nil
}

// raiseFileLimit makes room for many streams; commands get a smaller limit of their own.
func raiseFileLimit() error {
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20})
}

func bringUpLoopback() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	return linux.Ioctl(socket, syscall.SIOCSIFFLAGS, unsafe.Pointer(&request))
}

func mountAt(source, path, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(source, path, kind, flags, options); err != nil && err != syscall.EBUSY {
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	return nil
}
