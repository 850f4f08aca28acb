package files

import (
	"os"
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

func (f *Files) Stat(request *wire.Stat) (*wire.StatResult, error) {
	result := &wire.StatResult{}
	err := f.within(request.Path, func() error {
		var stat syscall.Stat_t
		look := syscall.Lstat
		if request.Follow != 0 {
			look = syscall.Stat
		}
		if err := look(request.Path, &stat); err != nil {
			return err
		}
		result.Entry = describe(linux.AtFdcwd, request.Path, &stat)
		if _, base := split(request.Path); base != "." {
			result.Entry.Name = base
		} else {
			result.Entry.Name = "/"
		}
		return nil
	})
	return result, err
}

func (f *Files) Remove(request *wire.Remove) error {
	return f.within(request.Path, func() error {
		var stat syscall.Stat_t
		if err := syscall.Lstat(request.Path, &stat); err != nil {
			return err
		}
		if _, base := split(request.Path); base == "." || base == ".." {
			return failure.New(failure.BadRequest, "this directory cannot be removed")
		}
		if request.Recursive != 0 {
			return os.RemoveAll(request.Path)
		}
		if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return syscall.Unlink(request.Path)
		}
		err := syscall.Rmdir(request.Path)
		if err == syscall.ENOTEMPTY {
			return failure.New(failure.IsADirectory, "the directory is not empty: "+failure.Readable(request.Path))
		}
		return err
	})
}

func (f *Files) Rename(request *wire.Rename) error {
	if err := CheckPath(request.New); err != nil {
		return err
	}
	return f.within(request.Old, func() error { return syscall.Rename(request.Old, request.New) })
}

func (f *Files) Mkdir(request *wire.Mkdir) error {
	return f.within(request.Path, func() error {
		owner, err := accounts.Lookup(request.Owner)
		if err != nil {
			return err
		}
		if request.Parents != 0 {
			return makeAll(request.Path, request.Mode, owner)
		}
		return makeOne(request.Path, request.Mode, owner)
	})
}

// makeAll makes a directory and what is missing above it; one that exists stays as it is.
func makeAll(path string, mode uint32, owner accounts.Account) error {
	err := makeOne(path, mode, owner)
	if err == syscall.ENOENT {
		if parent, base := split(path); base != "." {
			if err := makeAll(parent, 0o755, owner); err != nil {
				return err
			}
			err = makeOne(path, mode, owner)
		}
	}
	if err != syscall.EEXIST {
		return err
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return syscall.ENOTDIR
	}
	return nil
}

func makeOne(path string, mode uint32, owner accounts.Account) error {
	if err := syscall.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := syscall.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return syscall.Chmod(path, mode&0o7777) // after the owner, whose change clears bits; no umask
}
