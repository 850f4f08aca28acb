package world

import (
	"os"
	"syscall"

	"crucible.dev/agent/linux"
)

// Confine takes from the user's world what it had until now: the right to write to its disk, or the
// powers of root. Neither comes back while the machine runs.
func (w *World) Confine(isReadOnly, hasNoPowers bool) error {
	if isReadOnly && !w.isReadOnly {
		if err := w.mounting(w.closeDisk); err != nil {
			return err
		}
		w.isReadOnly = true
	}
	if !hasNoPowers {
		return nil
	}
	var err error
	w.Spawner(func() {
		if err = linux.DropBounding(0); err == nil {
			err = linux.NoNewPrivileges()
		}
	})
	return err
}

// Unlocked runs work while the disk can be written to. The user's processes should be frozen.
func (w *World) Unlocked(work func() error) error {
	if !w.isReadOnly {
		return work()
	}
	if err := w.mounting(func() error { return remountRoot(0) }); err != nil {
		return err
	}
	err := work()
	if closing := w.mounting(func() error { return remountRoot(syscall.MS_RDONLY) }); err == nil {
		err = closing
	}
	return err
}

// mounting runs work on a thread of the world that may mount, as no process of the user can.
func (w *World) mounting(work func() error) error {
	t, err := newThread(w.enter)
	if err != nil {
		return err
	}
	defer t.end()
	t.run(func() { err = work() })
	return err
}

// closeDisk leaves only what lies in memory writable: /tmp, /run, /dev/shm.
func (w *World) closeDisk() error {
	if w.isShared {
		if err := restrictShared(syscall.MS_RDONLY); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", "/tmp", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,size=25%"); err != nil {
		return err
	}
	return remountRoot(syscall.MS_RDONLY)
}

func remountRoot(flags uintptr) error {
	if err := syscall.Mount("", "/", "", syscall.MS_BIND|syscall.MS_REMOUNT|flags, ""); err != nil {
		return &os.PathError{Op: "remount", Path: "/", Err: err}
	}
	return nil
}
