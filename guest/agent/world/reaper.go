package world

import (
	"os"
	"runtime/debug"
	"syscall"

	"crucible.dev/agent/linux"
)

const (
	reportReady = "ready"
	reportFd    = 3
)

// RunReaper is the world's first process. It furnishes the world and then only exists: the kernel
// reaps orphans for it, and no signal from inside can reach it.
func RunReaper(sysroot, bootIdFile string) {
	debug.SetGCPercent(-1)
	report := os.NewFile(reportFd, "report")
	if err := furnish(sysroot, bootIdFile); err != nil {
		report.WriteString(err.Error())
		os.Exit(1)
	}
	linux.IgnoreEverySignal()
	report.WriteString(reportReady)
	report.Close()
	for fd := 0; fd < reportFd; fd++ {
		syscall.Close(fd)
	}
	linux.SleepForever()
}

// furnish turns a copy of the agent's mounts into the user's view of the machine.
func furnish(sysroot, bootIdFile string) error {
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, step := range []func(string) error{mountDevices, mountKernelViews, mountScratch} {
		if err := step(sysroot); err != nil {
			return err
		}
	}
	if err := bind(bootIdFile, sysroot+"/proc/sys/kernel/random/boot_id", syscall.MS_RDONLY); err != nil {
		return err
	}
	names, err := writeNames()
	if err != nil {
		return err
	}
	if err := becomeRoot(sysroot); err != nil {
		return err
	}
	return showNames(names)
}

// becomeRoot makes sysroot the root of the namespace. The initial ramfs cannot be pivoted away, so
// it is buried: nothing mounted on it stays, and no `..` climbs below the top mount.
func becomeRoot(sysroot string) error {
	for _, path := range []string{"/sys/fs/cgroup", "/sys", "/proc", "/dev", "/image", "/disk"} {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			return &os.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
	if err := os.Chdir(sysroot); err != nil {
		return err
	}
	if err := mount(sysroot, "/", "", syscall.MS_MOVE, ""); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}
