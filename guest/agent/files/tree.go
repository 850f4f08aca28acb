package files

import (
	"crypto/sha256"
	"io"
	"os"
	"syscall"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/walk"
	"crucible.dev/agent/wire"
)

const hashBuffer = 64 << 10

// Tree sends a record of everything below a directory, with the hash of each file if it is wanted.
func (f *Files) Tree(request *wire.Tree, output *channel.Outflow) (*wire.CountResult, error) {
	root, err := f.OpenDirectory(request.Root)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(root)
	output.Open()
	result := &wire.CountResult{}
	record := []byte{}
	buffer := make([]byte, hashBuffer)
	err = walk.Below(root, func(found *walk.Found) error {
		entry := describe(found.Directory, found.Name, &found.Stat)
		entry.Name = found.Path
		if request.Hash != 0 && entry.Type == wire.TypeFile {
			entry.Sha256 = hashOf(found, buffer)
		}
		record = wire.AppendRecord(record[:0], &entry)
		result.Count++
		_, err := output.Write(record)
		return err
	})
	return result, aboutUnlessGone(err, request.Root)
}

// hashOf is empty for a file that was taken away or replaced while we looked.
func hashOf(found *walk.Found, buffer []byte) string {
	fd, err := syscall.Openat(found.Directory, found.Name,
		syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	if refuseUnreadable(fd, found.Path) != nil {
		syscall.Close(fd)
		return ""
	}
	syscall.SetNonblock(fd, false) // else Go would try to poll it
	file := os.NewFile(uintptr(fd), found.Name)
	defer file.Close()
	hash := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{file}, buffer); err != nil {
		return ""
	}
	return string(hash.Sum(nil))
}
