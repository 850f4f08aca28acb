package boot

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// deviceWait bounds how long a disk may take to appear after its driver was loaded.
const deviceWait = 5 * time.Second

// mountRoot lays the writable disk over the read-only image.
func mountRoot() error {
	if err := awaitDevice(imageDev); err != nil {
		return err
	}
	if err := mountImage(); err != nil {
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
	options := "lowerdir=" + lower + ",upperdir=" + Upper + ",workdir=" + disk + "/work,index=off,metacopy=off,redirect_dir=on"
	return mountAt("overlay", Sysroot, "overlay", syscall.MS_NOATIME, options)
}

func mountImage() error {
	kind, err := imageKind()
	if err != nil {
		return err
	}
	return mountAt(imageDev, image, kind, syscall.MS_RDONLY|syscall.MS_NOATIME, "")
}

// imageKind looks at the superblock, because a wrong guess would make the kernel complain aloud.
func imageKind() (string, error) {
	device, err := os.Open(imageDev)
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
	return "", errors.New(imageDev + " holds neither squashfs nor erofs")
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
