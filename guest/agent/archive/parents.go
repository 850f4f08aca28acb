package archive

import (
	"archive/tar"
	"strings"
	"syscall"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
)

// openParent returns the directory of an entry and makes what is missing of it.
func (r *reader) openParent(name string) (int, error) {
	if r.parent >= 0 && name == r.parentName {
		return r.parent, nil
	}
	fd, err := linux.OpenBeneath(r.root, name, linux.OPath|syscall.O_DIRECTORY, 0)
	if err == syscall.ENOENT {
		if err = r.makeParents(name); err == nil {
			fd, err = linux.OpenBeneath(r.root, name, linux.OPath|syscall.O_DIRECTORY, 0)
		}
	}
	if err == syscall.EXDEV || err == syscall.ELOOP {
		return -1, unsafe("a link on its way leaves the root: ", name)
	}
	if err != nil {
		return -1, err
	}
	r.closeParent()
	r.parent, r.parentName = fd, name
	return fd, nil
}

func (r *reader) makeParents(name string) error {
	parts := strings.Split(name, "/")
	for count := range parts {
		directory := "."
		if count > 0 {
			directory = strings.Join(parts[:count], "/")
		}
		above, err := linux.OpenBeneath(r.root, directory, linux.OPath|syscall.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		err = syscall.Mkdirat(above, parts[count], 0o755)
		if err == nil && r.owner != nil {
			err = linux.ChownAt(above, parts[count], int(r.owner.Uid), int(r.owner.Gid))
		}
		syscall.Close(above)
		if err != nil && err != syscall.EEXIST {
			return err
		}
	}
	return nil
}

func (r *reader) closeParent() {
	if r.parent >= 0 {
		syscall.Close(r.parent)
		r.parent = -1
	}
}

// setDirectoryTimes comes last, because every entry changes the time of its directory.
func (r *reader) setDirectoryTimes() {
	for _, each := range r.directories {
		fd, err := linux.OpenBeneath(r.root, each.name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		linux.SetMtimeAt(fd, "", each.mtime)
		syscall.Close(fd)
	}
}

func mtimeOf(header *tar.Header) syscall.Timespec {
	return syscall.NsecToTimespec(header.ModTime.UnixNano())
}

func unsafe(reason, name string) error {
	return failure.New(failure.UnsafeArchive, reason+failure.Readable(name))
}
