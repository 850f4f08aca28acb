// Package files serves the verbs that look at and change the user's files. Paths are resolved on
// threads inside the world; bytes are moved by descriptor, wherever.
package files

import (
	"strings"
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

// World runs work where paths mean what they mean to the user.
type World interface {
	Files(work func() error) error
}

// Files is the user's filesystem.
type Files struct{ World World }

// within runs work inside the world after a look at the path it is about.
func (f *Files) within(path string, work func() error) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	return failure.About(f.World.Files(work), path)
}

// CheckPath refuses what cannot be a path of the user.
func CheckPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "\x00") {
		return failure.New(failure.BadRequest, "the path is not absolute: "+failure.Readable(path))
	}
	return nil
}

// OpenDirectory opens the directory at path.
func (f *Files) OpenDirectory(path string) (fd int, err error) {
	err = f.within(path, func() error {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// OpenDirectoryBeneath opens a directory by its path below an open one, which no symlink leads out of.
func OpenDirectoryBeneath(root int, path string) (int, error) {
	return linux.OpenBeneath(root, path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// Owner looks up who shall own something new.
func (f *Files) Owner(owner string) (account accounts.Account, err error) {
	err = f.World.Files(func() error {
		account, err = accounts.Lookup(owner)
		return err
	})
	return account, err
}

// split cuts a path into its directory and its last part.
func split(path string) (directory, base string) {
	path = strings.TrimRight(path, "/")
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "/", "."
	}
	return path[:at+1], path[at+1:]
}

// describe makes an entry of what the kernel says about a name in a directory.
func describe(directory int, name string, stat *syscall.Stat_t) wire.Entry {
	entry := wire.Entry{
		Name: name, Type: wire.TypeOther, Mode: stat.Mode & 0o7777, Size: uint64(stat.Size),
		Uid: stat.Uid, Gid: stat.Gid,
	}
	if mtime := stat.Mtim.Nano(); mtime > 0 {
		entry.MtimeNs = uint64(mtime)
	}
	switch stat.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		entry.Type = wire.TypeFile
	case syscall.S_IFDIR:
		entry.Type = wire.TypeDirectory
	case syscall.S_IFLNK:
		entry.Type = wire.TypeSymlink
		entry.Target, _ = linux.ReadlinkAt(directory, name)
	}
	return entry
}
