// Package archive moves trees in and out of the user's filesystem as tar streams.
package archive

import (
	"archive/tar"
	"io"
	"strings"
	"syscall"
	"time"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/walk"
)

const (
	copyBuffer = 64 << 10
	linksMost  = 1 << 16 // hard links remembered; beyond that they become files of their own
)

// Write puts what lies below root into a tar: everything, or only the names given. It returns the
// number of entries.
func Write(root int, names []string, output io.Writer) (uint64, error) {
	w := newWriter(output)
	if len(names) == 0 {
		if err := walk.Below(root, w.entry); err != nil {
			return w.count, err
		}
	}
	for _, name := range names {
		if err := w.named(root, name); err != nil {
			return w.count, err
		}
	}
	return w.count, w.tar.Close()
}

type inode struct{ device, number uint64 }

type writer struct {
	tar        *tar.Writer
	buffer     []byte
	links      map[inode]string
	count      uint64
	attributes bool // whether extended attributes are kept, which is for layers
}

func newWriter(output io.Writer) *writer {
	return &writer{tar: tar.NewWriter(output), buffer: make([]byte, copyBuffer), links: map[inode]string{}}
}

func modified(stat *syscall.Stat_t) time.Time { return time.Unix(stat.Mtim.Unix()) }

func (w *writer) named(root int, name string) error {
	directory, base, ok := splitInside(name)
	if !ok {
		return failure.New(failure.BadRequest, "not a name below the root: "+failure.Readable(name))
	}
	if base == "" {
		return walk.Below(root, w.entry)
	}
	parent, err := linux.OpenBeneath(root, directory, linux.OPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		return failure.About(err, name)
	}
	defer syscall.Close(parent)
	stat, err := linux.LstatAt(parent, base)
	if err != nil {
		return failure.About(err, name)
	}
	path := strings.TrimPrefix(directory+"/"+base, "./")
	return walk.From(&walk.Found{Directory: parent, Name: base, Path: path, Stat: stat}, w.entry)
}

func (w *writer) entry(found *walk.Found) error {
	stat := &found.Stat
	header := &tar.Header{
		Format: tar.FormatPAX, Name: found.Path, Mode: int64(stat.Mode & 0o7777),
		Uid: int(stat.Uid), Gid: int(stat.Gid), ModTime: modified(stat),
	}
	if w.attributes {
		if err := keepAttributes(found, header); err != nil {
			return err
		}
	}
	switch stat.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return w.file(found, header)
	case syscall.S_IFDIR:
		header.Typeflag, header.Name = tar.TypeDir, found.Path+"/"
	case syscall.S_IFLNK:
		target, err := linux.ReadlinkAt(found.Directory, found.Name)
		if err != nil {
			return nil // removed meanwhile
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
	case syscall.S_IFIFO:
		header.Typeflag = tar.TypeFifo
	default:
		return nil // sockets and devices mean nothing elsewhere
	}
	return w.header(header)
}

func (w *writer) file(found *walk.Found, header *tar.Header) error {
	id := inode{found.Stat.Dev, found.Stat.Ino}
	if first, ok := w.links[id]; ok && found.Stat.Nlink > 1 {
		header.Typeflag, header.Linkname = tar.TypeLink, first
		return w.header(header)
	}
	fd, err := syscall.Openat(found.Directory, found.Name,
		syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT || err == syscall.ELOOP {
		return nil // removed or replaced meanwhile
	}
	if err != nil {
		return failure.About(err, found.Path)
	}
	defer syscall.Close(fd)
	if found.Stat.Nlink > 1 && len(w.links) < linksMost {
		w.links[id] = found.Path
	}
	header.Typeflag, header.Size = tar.TypeReg, found.Stat.Size
	if err := w.header(header); err != nil {
		return err
	}
	return w.content(fd, found)
}

// content writes exactly the size that the header promised: a file that grows meanwhile is cut, one
// that shrinks is filled with zeros.
func (w *writer) content(fd int, found *walk.Found) error {
	hasEnded := false
	for left := found.Stat.Size; left > 0; {
		piece := w.buffer
		if int64(len(piece)) > left {
			piece = piece[:left]
		}
		count := 0
		if !hasEnded {
			var err error
			if count, err = syscall.Read(fd, piece); err != nil {
				return failure.About(err, found.Path)
			}
		}
		if count == 0 {
			hasEnded = true
			count = len(piece)
			clear(piece)
		}
		if _, err := w.tar.Write(piece[:count]); err != nil {
			return err
		}
		left -= int64(count)
	}
	return nil
}

func (w *writer) header(header *tar.Header) error {
	w.count++
	return w.tar.WriteHeader(header)
}

// splitInside cuts a relative name into directory and last part, and refuses a name that leaves its
// root. The root itself has an empty last part.
func splitInside(name string) (directory, base string, ok bool) {
	if strings.HasPrefix(name, "/") || strings.Contains(name, "\x00") {
		return "", "", false
	}
	parts := []string{}
	for _, part := range strings.Split(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", "", false
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ".", "", true
	}
	last := len(parts) - 1
	if last == 0 {
		return ".", parts[0], true
	}
	return strings.Join(parts[:last], "/"), parts[last], true
}

// keepAttributes takes those that mean something elsewhere. What the overlay says to itself does not.
func keepAttributes(found *walk.Found, header *tar.Header) error {
	if found.Stat.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		return nil
	}
	names, err := linux.ListAttributes(found.Directory, found.Name)
	if err == syscall.ENOENT || err == syscall.ENOTSUP {
		return nil // removed meanwhile, or on a filesystem that has none
	}
	if err != nil {
		return failure.About(err, found.Path)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "security.") {
			continue
		}
		value, err := linux.GetAttribute(found.Directory, found.Name, name)
		if err != nil {
			continue // removed meanwhile
		}
		if header.PAXRecords == nil {
			header.PAXRecords = map[string]string{}
		}
		header.PAXRecords["SCHILY.xattr."+name] = string(value)
	}
	return nil
}
