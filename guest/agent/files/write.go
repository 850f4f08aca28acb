package files

import (
	"io"
	"strings"
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

const (
	linksMost   = 40 // as many as the kernel follows
	writeBuffer = 64 << 10
)

// Write stores the stream's input in a file. Unless it appends, a reader sees the old file or the
// new one, never a part.
func (f *Files) Write(request *wire.Write, stream *channel.Stream) (*wire.SizeResult, error) {
	if request.Flags&^(wire.WriteAppend|wire.WriteMakeParents) != 0 {
		return nil, failure.New(failure.BadRequest, "unknown flag")
	}
	target, err := f.openTarget(request, stream.ID)
	if err != nil {
		return nil, err
	}
	defer target.close()
	size, err := target.fill(stream.Input)
	if err == nil {
		err = target.finish(request.Mode)
	}
	if err != nil {
		target.discard()
		return nil, aboutUnlessGone(err, request.Path)
	}
	return &wire.SizeResult{Size: size}, nil
}

// target is a file being written: aside, under its temporary name, or in place when appending.
type target struct {
	directory int
	fd        int
	aside     string // empty when appending
	name      string
	owner     accounts.Account
	isNew     bool
}

func (f *Files) openTarget(request *wire.Write, id uint32) (*target, error) {
	made := &target{directory: -1, fd: -1}
	err := f.within(request.Path, func() (err error) {
		if made.owner, err = accounts.Lookup(request.Owner); err != nil {
			return err
		}
		path, err := followLast(request.Path)
		if err != nil {
			return err
		}
		directory, name := split(path)
		if name == "." || name == ".." || strings.HasSuffix(path, "/") {
			return syscall.EISDIR
		}
		if request.Flags&wire.WriteMakeParents != 0 {
			if err := makeAll(directory, 0o755, made.owner); err != nil {
				return err
			}
		}
		made.name = name
		made.directory, err = syscall.Open(directory, linux.OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if request.Flags&wire.WriteAppend != 0 {
			return made.openInPlace()
		}
		return made.openAside(id)
	})
	if err != nil {
		made.close()
		return nil, err
	}
	return made, nil
}

// followLast follows symlinks in the last part, so that writing to a link writes what it names.
func followLast(path string) (string, error) {
	for count := 0; count < linksMost; count++ {
		link, err := linux.ReadlinkAt(linux.AtFdcwd, path)
		if err == syscall.EINVAL || err == syscall.ENOENT {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(link, "/") {
			path = link
		} else {
			directory, _ := split(path)
			path = directory + link
		}
	}
	return "", syscall.ELOOP
}

func (t *target) openAside(id uint32) (err error) {
	stat, err := linux.LstatAt(t.directory, t.name)
	if err == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return syscall.EISDIR
	}
	if err == nil && stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return failure.New(failure.BadRequest, "not a regular file: "+failure.Readable(t.name))
	}
	aside := asideName(id, err != nil)
	flags := syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	t.fd, err = syscall.Openat(t.directory, aside, flags, 0o600)
	if err == syscall.EEXIST { // left behind by a machine that was cut off
		linux.UnlinkAt(t.directory, aside, 0)
		t.fd, err = syscall.Openat(t.directory, aside, flags, 0o600)
	}
	if err == nil {
		t.aside, t.isNew = aside, true
	}
	return err
}

func (t *target) openInPlace() (err error) {
	flags := syscall.O_WRONLY | syscall.O_APPEND | syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	t.fd, err = syscall.Openat(t.directory, t.name, flags, 0)
	if err == syscall.ENOENT {
		t.fd, err = syscall.Openat(t.directory, t.name, flags|syscall.O_CREAT|syscall.O_EXCL, 0o600)
		t.isNew = true
	}
	if err != nil {
		return err
	}
	return refuseUnreadable(t.fd, t.name)
}

func (t *target) fill(input io.Reader) (size uint64, err error) {
	buffer := make([]byte, writeBuffer)
	for {
		count, err := input.Read(buffer)
		if err == io.EOF {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		if err := writeAll(t.fd, buffer[:count]); err != nil {
			return size, err
		}
		size += uint64(count)
	}
}

// finish gives the file its owner, mode and name. A file that was there before keeps the first two.
func (t *target) finish(mode uint32) error {
	if !t.isNew {
		return nil
	}
	if err := syscall.Fchown(t.fd, int(t.owner.Uid), int(t.owner.Gid)); err != nil {
		return err
	}
	if err := syscall.Fchmod(t.fd, mode&0o7777); err != nil {
		return err
	}
	if t.aside == "" {
		return nil
	}
	return syscall.Renameat(t.directory, t.aside, t.directory, t.name)
}

func (t *target) discard() {
	if t.aside != "" {
		linux.UnlinkAt(t.directory, t.aside, 0)
	}
}

func (t *target) close() {
	for _, fd := range []int{t.fd, t.directory} {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		count, err := syscall.Write(fd, data)
		if err != nil && err != syscall.EINTR {
			return err
		}
		if count > 0 {
			data = data[count:]
		}
	}
	return nil
}
