package archive

import (
	"archive/tar"
	"io"
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
)

const directoriesMost = 1 << 16 // directories whose time is set again at the end

// Read unpacks a tar below root and returns the number of entries. No name and no link, of the
// archive or already there, leads it out of root: the kernel resolves every path beneath it.
// Without an owner the numbers of the archive are kept.
func Read(root int, owner *accounts.Account, input io.Reader) (uint64, error) {
	r := &reader{root: root, owner: owner, buffer: make([]byte, copyBuffer), parent: -1}
	defer r.closeParent()
	counted := &counted{input: input}
	archive := tar.NewReader(counted)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return r.count, badArchive(err)
		}
		if err := r.entry(header, archive); err != nil {
			return r.count, failure.About(err, header.Name)
		}
	}
	r.setDirectoryTimes()
	_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{counted}, r.buffer)
	if err == nil && counted.total%blockBytes != 0 {
		err = badArchive(io.ErrUnexpectedEOF)
	}
	return r.count, err
}

const blockBytes = 512

// counted tells an archive that was cut inside a header, which the tar package takes for its end.
type counted struct {
	input io.Reader
	total int64
}

func (c *counted) Read(buffer []byte) (int, error) {
	count, err := c.input.Read(buffer)
	c.total += int64(count)
	return count, err
}

// badArchive tells damage in the archive from the loss of the host that was sending it.
func badArchive(err error) error {
	if err == tar.ErrHeader || err == io.ErrUnexpectedEOF || err == tar.ErrFieldTooLong {
		return failure.New(failure.BadRequest, "not a whole tar archive: "+err.Error())
	}
	return err
}

type reader struct {
	root        int
	owner       *accounts.Account
	buffer      []byte
	count       uint64
	parent      int // the directory of the last entry, kept open because the next is often there too
	parentName  string
	directories []directoryTime
}

type directoryTime struct {
	name  string
	mtime syscall.Timespec
}

func (r *reader) entry(header *tar.Header, content io.Reader) error {
	directory, base, ok := splitInside(header.Name)
	if !ok {
		return unsafe("the name leaves the root: ", header.Name)
	}
	if base == "" {
		return nil // the root itself belongs to the caller
	}
	parent, err := r.openParent(directory)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		err = r.file(parent, base, header, content)
	case tar.TypeDir:
		err = r.directory(parent, base, directory+"/"+base, header)
	case tar.TypeSymlink:
		err = r.replacing(parent, base, func() error { return linux.SymlinkAt(header.Linkname, parent, base) })
	case tar.TypeLink:
		err = r.hardLink(parent, base, header)
	case tar.TypeFifo:
		err = r.replacing(parent, base, func() error {
			return linux.MknodAt(parent, base, syscall.S_IFIFO|uint32(header.Mode)&0o777)
		})
	default:
		return nil // devices and marks of other archivers
	}
	if err != nil {
		return err
	}
	r.count++
	if header.Typeflag == tar.TypeSymlink || header.Typeflag == tar.TypeFifo {
		return r.dress(parent, base, header)
	}
	return nil
}

// file removes whatever had the name first, so that no link is written through and no running
// program is changed.
func (r *reader) file(parent int, base string, header *tar.Header, content io.Reader) error {
	var fd int
	err := r.replacing(parent, base, func() (err error) {
		flags := syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
		fd, err = syscall.Openat(parent, base, flags, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := r.fill(fd, content); err != nil {
		return err
	}
	uid, gid := r.ids(header)
	if err := syscall.Fchown(fd, uid, gid); err != nil {
		return err
	}
	if err := syscall.Fchmod(fd, uint32(header.Mode)&0o7777); err != nil {
		return err
	}
	return linux.SetMtimeAt(fd, "", mtimeOf(header))
}

func (r *reader) fill(fd int, content io.Reader) error {
	for {
		count, err := content.Read(r.buffer)
		for written := 0; written < count; {
			more, err := syscall.Write(fd, r.buffer[written:count])
			if err != nil {
				return err
			}
			written += more
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return badArchive(err)
		}
	}
}

// directory keeps one that is there, also behind a symlink that stays beneath the root, as images
// have them (`lib` for `usr/lib`).
func (r *reader) directory(parent int, base, name string, header *tar.Header) error {
	err := syscall.Mkdirat(parent, base, 0o700)
	if err != nil && err != syscall.EEXIST {
		return err
	}
	fd, err := linux.OpenBeneath(r.root, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		if err := linux.UnlinkAt(parent, base, 0); err != nil {
			return err
		}
		if err := syscall.Mkdirat(parent, base, 0o700); err != nil {
			return err
		}
		if fd, err = linux.OpenBeneath(r.root, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0); err != nil {
			return err
		}
	}
	defer syscall.Close(fd)
	uid, gid := r.ids(header)
	if err := syscall.Fchown(fd, uid, gid); err != nil {
		return err
	}
	if len(r.directories) < directoriesMost {
		r.directories = append(r.directories, directoryTime{name, mtimeOf(header)})
	}
	return syscall.Fchmod(fd, uint32(header.Mode)&0o7777)
}

func (r *reader) hardLink(parent int, base string, header *tar.Header) error {
	directory, name, ok := splitInside(header.Linkname)
	if !ok || name == "" {
		return unsafe("the link leaves the root: ", header.Linkname)
	}
	source, err := linux.OpenBeneath(r.root, directory, linux.OPath|syscall.O_DIRECTORY, 0)
	if err == syscall.EXDEV || err == syscall.ELOOP {
		return unsafe("the link leaves the root: ", header.Linkname)
	}
	if err != nil {
		return err
	}
	defer syscall.Close(source)
	return r.replacing(parent, base, func() error { return linux.LinkAt(source, name, parent, base) })
}

// replacing makes something under a name, in place of what had it.
func (r *reader) replacing(parent int, base string, make func() error) error {
	err := make()
	if err != syscall.EEXIST {
		return err
	}
	if err := linux.UnlinkAt(parent, base, 0); err != nil {
		return err
	}
	return make()
}

// dress sets owner and time of what has no descriptor.
func (r *reader) dress(parent int, base string, header *tar.Header) error {
	uid, gid := r.ids(header)
	if err := linux.ChownAt(parent, base, uid, gid); err != nil {
		return err
	}
	return linux.SetMtimeAt(parent, base, mtimeOf(header))
}

func (r *reader) ids(header *tar.Header) (uid, gid int) {
	if r.owner != nil {
		return int(r.owner.Uid), int(r.owner.Gid)
	}
	return header.Uid, header.Gid
}
