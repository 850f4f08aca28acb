package files

import (
	"io"
	"math"
	"os"
	"syscall"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/walk"
	"crucible.dev/agent/wire"
)

// Read sends a part of a file.
func (f *Files) Read(request *wire.Read, output *channel.Outflow) (*wire.SizeResult, error) {
	file, err := f.openReadable(request.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	output.Open()
	if request.Offset > math.MaxInt64 {
		return &wire.SizeResult{}, nil
	}
	if request.Offset > 0 {
		if _, err := file.Seek(int64(request.Offset), io.SeekStart); err != nil {
			return nil, failure.About(err, request.Path)
		}
	}
	left := request.Length
	if left == 0 || left > math.MaxInt64 {
		left = math.MaxInt64
	}
	sent := uint64(0)
	for sent < left {
		space := output.Space()
		if uint64(len(space)) > left-sent {
			space = space[:left-sent]
		}
		count, err := file.Read(space)
		sent += uint64(count)
		if failed := output.Add(count); failed != nil {
			return nil, failed
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, failure.About(err, request.Path)
		}
	}
	return &wire.SizeResult{Size: sent}, nil
}

// openReadable opens a file or a device that gives bytes. It does not wait, as a pipe would.
func (f *Files) openReadable(path string) (*os.File, error) {
	var fd int
	err := f.within(path, func() (err error) {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := refuseUnreadable(fd, path); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	syscall.SetNonblock(fd, false)
	return os.NewFile(uintptr(fd), path), nil
}

func refuseUnreadable(fd int, path string) error {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return failure.About(err, path)
	}
	switch stat.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return nil
	case syscall.S_IFDIR:
		return failure.About(syscall.EISDIR, path)
	}
	return failure.New(failure.BadRequest, "not a regular file: "+failure.Readable(path))
}

// ListDir sends a record for each entry, in the order of the filesystem.
func (f *Files) ListDir(request *wire.ListDir, output *channel.Outflow) (*wire.CountResult, error) {
	fd, err := f.OpenDirectory(request.Path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	output.Open()
	count := uint64(0)
	record := []byte{}
	err = walk.Names(fd, func(found os.DirEntry) error {
		stat, err := linux.LstatAt(fd, found.Name())
		if err == syscall.ENOENT {
			return nil // removed since it was listed
		}
		if err != nil {
			return err
		}
		entry := describe(fd, found.Name(), &stat)
		record = wire.AppendRecord(record[:0], &entry)
		count++
		_, err = output.Write(record)
		return err
	})
	return &wire.CountResult{Count: count}, aboutUnlessGone(err, request.Path)
}

// aboutUnlessGone keeps the mark of a stream whose host is gone, which needs no answer.
func aboutUnlessGone(err error, path string) error {
	if err == channel.ErrAbandoned {
		return err
	}
	return failure.About(err, path)
}
