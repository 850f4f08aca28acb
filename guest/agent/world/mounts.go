package world

import (
	"os"
	"syscall"
)

const harmless = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}

// bind shows source at target; flags such as read-only need a second step.
func bind(source, target string, flags uintptr) error {
	if err := mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|harmless|flags, "")
}

// mountKernelViews gives /proc of the new process namespace and a read-only /sys, and closes the
// files through which root could turn the kernel's knobs.
func mountKernelViews(root string) error {
	for _, name := range []string{"/proc", "/sys"} {
		if err := makeDirectory(root+name, 0o555); err != nil {
			return err
		}
	}
	if err := mount("proc", root+"/proc", "proc", harmless, ""); err != nil {
		return err
	}
	if err := mount("sysfs", root+"/sys", "sysfs", harmless|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, name := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		path := root + "/proc/" + name
		if err := bind(path, path, syscall.MS_RDONLY); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	for _, path := range []string{
		"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
		"/proc/acpi", "/proc/scsi", "/proc/asound", "/sys/firmware",
	} {
		if err := mask(root, path); err != nil {
			return err
		}
	}
	return nil
}

// mask hides a file behind /dev/null and a directory behind an empty one.
func mask(root, name string) error {
	path := root + name
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return mount("tmpfs", path, "tmpfs", harmless|syscall.MS_RDONLY, "size=0")
	}
	return mount(root+"/dev/null", path, "", syscall.MS_BIND, "")
}

// mountDevices makes a /dev with nothing in it that reaches the hardware.
func mountDevices(root string) error {
	dev := root + "/dev"
	if err := makeDirectory(dev, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", dev, "tmpfs", syscall.MS_NOSUID|syscall.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for name, minor := range map[string]int{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := makeDevice(dev+"/"+name, 1<<8|minor); err != nil {
			return err
		}
	}
	if err := makeDevice(dev+"/tty", 5<<8); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, dev+"/"+name); err != nil {
			return err
		}
	}
	if err := mountAt(dev+"/pts", "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"); err != nil {
		return err
	}
	if err := mountAt(dev+"/mqueue", "mqueue", harmless, ""); err != nil && err.(*os.PathError).Err != syscall.ENODEV {
		return err
	}
	return mountAt(dev+"/shm", "tmpfs", harmless&^syscall.MS_NOEXEC, "mode=1777")
}

// mountScratch gives /run in memory, with what the image has there: services look for the
// directories that were made for them. /tmp stays on the disk, which is larger.
func mountScratch(root string) error {
	if err := makeDirectory(root+"/tmp", 0o777|os.ModeSticky); err != nil {
		return err
	}
	kept := rememberRun(root + "/run")
	if err := mountAt(root+"/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755,size=25%"); err != nil {
		return err
	}
	return kept.restore(root + "/run")
}

func mountAt(path, kind string, flags uintptr, options string) error {
	if err := makeDirectory(path, 0o755); err != nil {
		return err
	}
	return mount(kind, path, kind, flags, options)
}

// makeDirectory makes sure of a real directory with this mode, whatever the image holds there.
func makeDirectory(path string, mode os.FileMode) error {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() && info.Mode()&(os.ModePerm|os.ModeSticky) == mode {
		return nil
	}
	if err == nil && !info.IsDir() {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return os.Chmod(path, mode)
}

func makeDevice(path string, number int) error {
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, number); err != nil {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return os.Chmod(path, 0o666)
}
