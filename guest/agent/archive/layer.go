package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"syscall"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/walk"
)

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"

	opaqueAttribute   = "trusted.overlay.opaque"
	redirectAttribute = "trusted.overlay.redirect"
)

// ours are what the agent makes or fills in every machine: the image's own are left as they are.
var ours = map[string]bool{
	"proc": true, "sys": true, "dev": true, "run": true,
	"etc/hostname": true, "etc/hosts": true, "etc/resolv.conf": true, "etc/machine-id": true,
}

// WriteLayer puts what an overlay's upper directory holds into a tar as images have it: what was
// removed is a whiteout. A directory that was renamed lies in upper only in part, so it comes from
// merged, which is the overlay itself.
func WriteLayer(upper, merged int, output io.Writer) (uint64, error) {
	l := &layer{writer: newWriter(output), merged: merged}
	l.attributes = true
	if err := walk.Below(upper, l.entry); err != nil {
		return l.count, err
	}
	return l.count, l.tar.Close()
}

type layer struct {
	*writer
	merged int
}

func (l *layer) entry(found *walk.Found) error {
	if isOurs(found.Path) {
		return walk.Skip
	}
	stat := &found.Stat
	if stat.Mode&syscall.S_IFMT == syscall.S_IFCHR && stat.Rdev == 0 {
		return l.mark(found, found.Path[:len(found.Path)-len(found.Name)]+whiteout+found.Name)
	}
	if strings.HasPrefix(found.Name, whiteout) {
		return failure.New(failure.UnsafeArchive, "a file's name begins with "+whiteout+": "+failure.Readable(found.Path))
	}
	if !found.IsDirectory() {
		return l.writer.entry(found)
	}
	if _, err := linux.GetAttribute(found.Directory, found.Name, redirectAttribute); err == nil {
		if err := l.renamed(found); err != nil {
			return err
		}
		return walk.Skip
	}
	if err := l.writer.entry(found); err != nil {
		return err
	}
	value, err := linux.GetAttribute(found.Directory, found.Name, opaqueAttribute)
	if err == nil && bytes.Equal(value, []byte("y")) {
		return l.mark(found, found.Path+"/"+opaque)
	}
	return nil
}

// renamed writes a directory whole, in place of whatever the layers below have under its name.
func (l *layer) renamed(found *walk.Found) error {
	directory, base, ok := splitInside(found.Path)
	if !ok {
		return failure.New(failure.BadRequest, "not a name below the root: "+failure.Readable(found.Path))
	}
	parent, err := linux.OpenBeneath(l.merged, directory, linux.OPath|syscall.O_DIRECTORY, 0)
	if err != nil {
		return failure.About(err, found.Path)
	}
	defer syscall.Close(parent)
	stat, err := linux.LstatAt(parent, base)
	if err != nil {
		return failure.About(err, found.Path)
	}
	whole := &walk.Found{Directory: parent, Name: base, Path: found.Path, Stat: stat}
	isFirst := true
	return walk.From(whole, func(inner *walk.Found) error {
		if err := l.writer.entry(inner); err != nil || !isFirst {
			return err
		}
		isFirst = false
		return l.mark(inner, inner.Path+"/"+opaque)
	})
}

// mark writes an empty file that says what is not there any more.
func (l *layer) mark(found *walk.Found, path string) error {
	return l.header(&tar.Header{
		Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: path, ModTime: modified(&found.Stat),
	})
}

func isOurs(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	return ours[path] || top != "etc" && ours[top]
}
