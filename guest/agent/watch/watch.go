// Package watch tells the host what changes in a directory of the user's. The kernel's queue is the
// only one: while the host does not read, it fills, and what it drops is told as an overflow.
package watch

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/files"
	"crucible.dev/agent/walk"
	"crucible.dev/agent/wire"
)

const (
	directoriesMost = 4096
	readBuffer      = 16 << 10
	interest        = syscall.IN_CREATE | syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_DELETE |
		syscall.IN_MOVED_FROM | syscall.IN_MOVED_TO | syscall.IN_ONLYDIR | syscall.IN_EXCL_UNLINK
)

// Serve watches a directory until the host has enough or the directory is gone. It is opened again each time it
// is needed: held open, it would never be gone.
func Serve(open func() (int, error), isRecursive bool, stream *channel.Stream) error {
	root, err := open()
	if err != nil {
		return err
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		syscall.Close(root)
		return failure.New(failure.TooLarge, "the machine has no room for another watch")
	}
	w := &watcher{
		queue: fd, file: os.NewFile(uintptr(fd), "inotify"), open: open, isRecursive: isRecursive,
		names: map[int32]string{}, stream: stream,
	}
	defer w.file.Close()
	stream.WhenGone(func() {
		w.file.Close()
		stream.Input.Close(channel.ErrAbandoned)
	})
	w.rootWatch, err = w.add(root, "")
	if err == nil && isRecursive {
		w.addBelow(root, "", nil)
	}
	syscall.Close(root)
	if err != nil {
		return failure.New(failure.TooLarge, "the machine has no room for another watch")
	}
	if err := stream.Tell(wire.NoteWatching, &wire.Empty{}); err != nil {
		return err
	}
	return w.follow()
}

type watcher struct {
	queue       int
	file        *os.File
	open        func() (int, error)
	rootWatch   int32
	isRecursive bool
	names       map[int32]string // of directories, relative to the root, with a slash at the end
	stream      *channel.Stream

	missesSome bool   // an overflow is to be told
	aside      uint32 // the cookie of a file that the agent itself moves into its place
	isFresh    bool   // and that had no such name before
	moving     string // a directory that was renamed, until its new name is known
	movingWith uint32 // the cookie of that
}

// add watches a directory by its descriptor, so that no name of the user's is looked up.
func (w *watcher) add(directory int, name string) (int32, error) {
	watch, err := syscall.InotifyAddWatch(w.queue, "/proc/self/fd/"+strconv.Itoa(directory), interest)
	if err != nil {
		return 0, err
	}
	w.names[int32(watch)] = name
	return int32(watch), nil
}

// addBelow watches the directories under an open one. What is in those that were not watched before is told, unless
// fresh is nil: it can be older than their watch.
func (w *watcher) addBelow(directory int, prefix string, fresh map[string]bool) {
	err := walk.Below(directory, func(found *walk.Found) error {
		path := prefix + found.Path
		if fresh[path[:strings.LastIndexByte(path, '/')+1]] {
			w.tell(wire.ChangeCreated, path)
		}
		if found.IsDirectory() && w.addNamed(found.Directory, found.Name, path) && fresh != nil {
			fresh[path+"/"] = true
		}
		return nil
	})
	if err != nil {
		w.missesSome = true
	}
}

// addNamed watches a name in an open directory, if it is a directory and there is room, and says whether
// that is new.
func (w *watcher) addNamed(parent int, name, path string) bool {
	before := len(w.names)
	if before >= directoriesMost {
		w.missesSome = true
		return false
	}
	fd, err := syscall.Openat(parent, name,
		syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false // gone again
	}
	defer syscall.Close(fd)
	if _, err = w.add(fd, path+"/"); err != nil {
		w.missesSome = true
	}
	return len(w.names) > before
}

func (w *watcher) follow() error {
	buffer := make([]byte, readBuffer)
	for {
		count, err := w.file.Read(buffer)
		if w.stream.IsGone() {
			return channel.ErrAbandoned
		}
		if err != nil {
			return failure.About(err, "watch")
		}
		isOver := w.take(buffer[:count])
		if err := w.flush(); err != nil || isOver {
			return err
		}
	}
}

// take goes through what the kernel reported: of each event a number, a mask, a cookie and a padded name.
func (w *watcher) take(events []byte) (isOver bool) {
	for len(events) >= syscall.SizeofInotifyEvent {
		watch := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		cookie := binary.NativeEndian.Uint32(events[8:])
		end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := strings.TrimRight(string(events[syscall.SizeofInotifyEvent:end]), "\x00")
		events = events[end:]
		w.settleMove(mask, cookie)
		switch {
		case mask&syscall.IN_Q_OVERFLOW != 0:
			w.missesSome = true
		case mask&syscall.IN_IGNORED != 0:
			delete(w.names, watch)
			isOver = isOver || watch == w.rootWatch
		case name != "":
			if directory, ok := w.names[watch]; ok {
				w.takeOne(mask, cookie, directory, name)
			}
		}
	}
	return isOver
}

func (w *watcher) takeOne(mask, cookie uint32, directory, name string) {
	if isAside, isFresh := files.IsAside(name); isAside {
		if mask&syscall.IN_MOVED_FROM != 0 {
			w.aside, w.isFresh = cookie, isFresh
		}
		return
	}
	path := directory + name
	if mask&syscall.IN_MOVED_TO != 0 && cookie == w.aside {
		if w.isFresh {
			w.tell(wire.ChangeCreated, path)
		}
		w.tell(wire.ChangeWritten, path)
		return
	}
	for _, each := range meanings {
		if mask&each.mask != 0 {
			w.tell(each.change, path)
		}
	}
	if w.isRecursive && mask&syscall.IN_ISDIR != 0 {
		w.takeDirectory(mask, cookie, path)
	}
}

var meanings = []struct {
	mask   uint32
	change uint8
}{
	{syscall.IN_CREATE | syscall.IN_MOVED_TO, wire.ChangeCreated},
	{syscall.IN_MODIFY, wire.ChangeWritten},
	{syscall.IN_ATTRIB, wire.ChangeAttributes},
	{syscall.IN_MOVED_FROM, wire.ChangeRenamed},
	{syscall.IN_DELETE, wire.ChangeRemoved},
}

// settleMove gives up the watches of a directory that was moved away: the event after such a move has its new name,
// or it has none below the root.
func (w *watcher) settleMove(mask, cookie uint32) {
	if w.moving == "" || mask&syscall.IN_MOVED_TO != 0 && cookie == w.movingWith {
		return
	}
	for watch, name := range w.names {
		if strings.HasPrefix(name, w.moving) {
			syscall.InotifyRmWatch(w.queue, uint32(watch))
			delete(w.names, watch)
		}
	}
	w.moving = ""
}

// takeDirectory keeps the watches in step with the directories. A new one is looked up beneath the root:
// if the user put something else in its place meanwhile, that is watched or nothing is.
func (w *watcher) takeDirectory(mask, cookie uint32, path string) {
	if mask&syscall.IN_MOVED_FROM != 0 {
		w.moving, w.movingWith = path+"/", cookie
	}
	if mask&(syscall.IN_CREATE|syscall.IN_MOVED_TO) == 0 {
		return
	}
	if w.moving != "" {
		for watch, name := range w.names {
			if below, ok := strings.CutPrefix(name, w.moving); ok {
				w.names[watch] = path + "/" + below
			}
		}
		w.moving = ""
	}
	root, err := w.open()
	if err != nil {
		return // gone
	}
	fd, err := files.OpenDirectoryBeneath(root, path)
	syscall.Close(root)
	if err != nil {
		return // gone again
	}
	defer syscall.Close(fd)
	w.addBelow(fd, path+"/", map[string]bool{path + "/": w.addNamed(fd, ".", path)})
}

func (w *watcher) tell(change uint8, name string) {
	w.stream.Output().Write(wire.AppendChange(nil, &wire.Change{Kind: change, Name: name}))
}

// flush sends what was collected. A stream whose host has left says so here.
func (w *watcher) flush() error {
	if w.missesSome {
		w.missesSome = false
		w.tell(wire.ChangeOverflow, "")
	}
	err := w.stream.Output().Flush()
	w.stream.Output().Release()
	return err
}
