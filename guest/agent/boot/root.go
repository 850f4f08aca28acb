package boot

import (
	"errors"
	"os"
	"syscall"
	"time"

	"crucible.dev/agent/wire"
)

// deviceWait bounds how long a disk may take to appear after its driver was loaded.
const deviceWait = 30 * time.Second

// mountRoot lays the writable disk over the read-only image, or over each of several.
func (m *Machine) mountRoot() error {
	if err := awaitDevice(imageDev); err != nil {
		return err
	}
	first := imageDev
	isComposed, err := startsWith(imageDev, wire.CompositionMagic)
	if err != nil {
		return err
	}
	if isComposed {
		if m.Composition, err = readComposition(); err != nil {
			return err
		}
		if err := splitDevice(m.Composition); err != nil {
			return err
		}
		first = partDevice(0)
	}
	if err := mountImage(first, image); err != nil {
		return err
	}
	if err := mountDisk(); err != nil {
		return err
	}
	for _, name := range []string{"/upper", "/work"} {
		if err := os.Mkdir(disk+name, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
	}
	lower, err := layNames()
	if err != nil {
		return err
	}
	if err := mountOverlay(lower, disk, Sysroot); err != nil {
		return err
	}
	if isComposed {
		return mountFurther(m.Composition)
	}
	return nil
}

func mountImage(device, target string) error {
	kind, err := imageKind(device)
	if err != nil {
		return err
	}
	return mountAt(device, target, kind, syscall.MS_RDONLY|syscall.MS_NOATIME, "")
}

// imageKind looks at the superblock, because a wrong guess would make the kernel complain aloud.
func imageKind(path string) (string, error) {
	device, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer device.Close()
	var start [1024 + 4]byte
	if _, err := device.ReadAt(start[:], 0); err != nil {
		return "", err
	}
	switch {
	case string(start[:4]) == "hsqs":
		return "squashfs", nil
	case string(start[1024:]) == "\xe2\xe1\xf5\xe0":
		return "erofs", nil
	}
	return "", errors.New(path + " holds neither squashfs nor erofs")
}

func startsWith(path, magic string) (bool, error) {
	device, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer device.Close()
	start := make([]byte, len(magic))
	_, err = device.ReadAt(start, 0)
	return string(start) == magic, err
}

// mountDisk takes memory instead when the machine has no second disk.
func mountDisk() error {
	if _, err := os.Stat(DiskDev); os.IsNotExist(err) {
		return mountAt("tmpfs", disk, "tmpfs", syscall.MS_NOATIME, "mode=755")
	}
	// Without these the filesystem looks at itself in the background, in every copy of the machine anew.
	return mountAt(DiskDev, disk, "ext4", syscall.MS_NOATIME, "noinit_itable,no_prefetch_block_bitmaps")
}

func awaitDevice(path string) error {
	for deadline := time.Now().Add(deviceWait); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
