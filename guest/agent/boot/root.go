package boot

import (
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
	options := "lowerdir=" + image + ",upperdir=" + disk + "/upper,workdir=" + disk + "/work,index=off,metacopy=off,redirect_dir=on"
	return mountAt("overlay", Sysroot, "overlay", syscall.MS_NOATIME, options)
}

func mountImage() (err error) {
	for _, kind := range []string{"squashfs", "erofs"} {
		if err = mountAt(imageDev, image, kind, syscall.MS_RDONLY|syscall.MS_NOATIME, ""); err == nil {
			return nil
		}
	}
	return err
}

// mountDisk takes memory instead when the machine has no second disk.
func mountDisk() error {
	if _, err := os.Stat(DiskDev); os.IsNotExist(err) {
		return mountAt("tmpfs", disk, "tmpfs", syscall.MS_NOATIME, "mode=755")
	}
	return mountAt(DiskDev, disk, "ext4", syscall.MS_NOATIME, "")
}

func awaitDevice(path string) error {
	for deadline := time.Now().Add(deviceWait); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
