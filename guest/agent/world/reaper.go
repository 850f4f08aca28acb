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

// arguments are how the first process of a world is told its place.
func (p Place) arguments() []string {
	shared := ""
	if p.IsShared {
		shared = "shared"
	}
	return []string{ReaperName, p.Sysroot, p.BootIdFile, p.Name, p.Workdir, shared}
}

// RunReaper is the world's first process. It furnishes the world and then only exists: the kernel
// reaps orphans for it, and no signal from inside can reach it.
func RunReaper(arguments []string) {
	debug.SetGCPercent(-1)
	report := os.NewFile(reportFd, "report")
	place := Place{
		Sysroot: arguments[1], BootIdFile: arguments[2], Name: arguments[3], Workdir: arguments[4], IsShared: arguments[5] != "",
	}
	if err := place.furnish(); err != nil {
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
func (p Place) furnish() error {
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, step := range []func(string) error{mountDevices, mountKernelViews, mountScratch} {
		if err := step(p.Sysroot); err != nil {
			return err
		}
	}
	if err := bind(p.BootIdFile, p.Sysroot+"/proc/sys/kernel/random/boot_id", syscall.MS_RDONLY); err != nil {
		return err
	}
	names, err := writeNames()
	if err != nil {
		return err
	}
	commons, err := p.openCommons()
	if err != nil {
		return err
	}
	if err := becomeRoot(p.Sysroot); err != nil {
		return err
	}
	if err := showNames(names); err != nil {
		return err
	}
	return commons.share()
}

// becomeRoot makes sysroot the root of the namespace. The initial ramfs cannot be pivoted away, so
// it is buried: nothing mounted on it stays, and no `..` climbs below the top mount.
func becomeRoot(sysroot string) error {
	for _, path := range append(othersThan(sysroot), "/sys/fs/cgroup", "/sys", "/proc", "/dev", "/image", "/disk") {
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
