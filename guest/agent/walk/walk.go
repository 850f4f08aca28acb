// Package walk goes through a directory tree by open directories, so that nothing the user renames
// or links meanwhile can lead it elsewhere.
package walk

import (
	"errors"
	"io"
	"os"
	"sort"
	"syscall"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
)

const (
	depthMost   = 1024
	entriesMost = 1 << 18 // of one directory; they are held in memory to be sorted
	batch       = 512
)

// Skip is what a visitor of a directory returns to be spared what is in it.
var Skip = errors.New("skip")

// Found is one entry: a name in an open directory, and its path relative to the root.
type Found struct {
	Directory int
	Name      string
	Path      string
	Stat      syscall.Stat_t
}

// Below visits everything under root in byte order of the paths, a directory before what it holds.
// It stays on the filesystem of root: what is mounted below shows as an empty directory.
func Below(root int, visit func(*Found) error) error {
	stat, err := linux.LstatAt(root, "")
	if err != nil {
		return err
	}
	return (&walker{device: stat.Dev, visit: visit}).directory(root, "", 0)
}

// From visits one entry and everything below it.
func From(found *Found, visit func(*Found) error) error {
	return (&walker{device: found.Stat.Dev, visit: visit}).entry(found, 0)
}

// open opens a directory that was found.
func (f *Found) open() (int, error) {
	return syscall.Openat(f.Directory, f.Name,
		syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
}

func (f *Found) IsDirectory() bool { return f.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR }

type walker struct {
	device uint64
	visit  func(*Found) error
}

func (w *walker) entry(found *Found, depth int) error {
	if err := w.visit(found); err != nil || !found.IsDirectory() {
		return passOver(err)
	}
	return w.descend(found, depth)
}

func (w *walker) descend(found *Found, depth int) error {
	if found.Stat.Dev != w.device {
		return nil
	}
	if depth == depthMost {
		return failure.New(failure.TooLarge, "the directories are nested too deeply")
	}
	fd, err := found.open()
	if err != nil {
		return ignoreVanished(err)
	}
	defer syscall.Close(fd)
	return w.directory(fd, found.Path+"/", depth+1)
}

// step is either an entry itself or, with a slash at the end of its key, what a directory holds.
// Sorted by key they give the byte order of whole paths: `a`, `a-b`, `a/c`.
type step struct {
	key      string
	descends bool
}

func (w *walker) directory(fd int, prefix string, depth int) error {
	steps, err := stepsOf(fd)
	if err != nil {
		return err
	}
	skipped := map[string]bool{}
	for _, step := range steps {
		name := step.key
		if step.descends {
			name = name[:len(name)-1]
		}
		stat, err := linux.LstatAt(fd, name)
		if ignoreVanished(err) != nil {
			return err
		}
		if err != nil {
			continue
		}
		found := &Found{fd, name, prefix + name, stat}
		if !step.descends {
			if err = w.visit(found); err == Skip {
				skipped[name] = true
			}
		} else if found.IsDirectory() && !skipped[name] {
			err = w.descend(found, depth)
		}
		if passOver(err) != nil {
			return err
		}
	}
	return nil
}

func stepsOf(fd int) ([]step, error) {
	steps := []step{}
	err := Names(fd, func(entry os.DirEntry) error {
		if len(steps) >= 2*entriesMost {
			return failure.New(failure.TooLarge, "a directory has too many entries")
		}
		steps = append(steps, step{entry.Name(), false})
		if entry.IsDir() {
			steps = append(steps, step{entry.Name() + "/", true})
		}
		return nil
	})
	sort.Slice(steps, func(a, b int) bool { return steps[a].key < steps[b].key })
	return steps, err
}

// Names lists a directory in the order in which the filesystem holds it.
func Names(fd int, each func(os.DirEntry) error) error {
	// A copy, because the listing closes what it reads and moves its offset.
	own, err := syscall.Openat(fd, ".", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	directory := os.NewFile(uintptr(own), ".")
	defer directory.Close()
	for {
		entries, err := directory.ReadDir(batch)
		for _, entry := range entries {
			if err := each(entry); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ignoreVanished passes over what was removed or replaced while we walked.
func ignoreVanished(err error) error {
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.ELOOP {
		return nil
	}
	return err
}

func passOver(err error) error {
	if err == Skip {
		return nil
	}
	return err
}
