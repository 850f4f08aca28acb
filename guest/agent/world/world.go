// Package world is where the user's processes live: namespaces of their own, seen from inside as a
// whole machine. The agent stays outside and enters with single threads.
package world

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"crucible.dev/agent/linux"
)

// ReaperName is the argument that makes the agent's binary run as the world's first process.
const ReaperName = "crucible-world"

// Capabilities are what root may do inside: the set that container engines grant, without MKNOD.
const Capabilities uint64 = 1<<0 | // CHOWN
	1<<1 | // DAC_OVERRIDE
	1<<3 | // FOWNER
	1<<4 | // FSETID
	1<<5 | // KILL
	1<<6 | // SETGID
	1<<7 | // SETUID
	1<<8 | // SETPCAP
	1<<10 | // NET_BIND_SERVICE
	1<<13 | // NET_RAW
	1<<18 | // SYS_CHROOT
	1<<29 | // AUDIT_WRITE
	1<<31 // SETFCAP

// World is the running set of namespaces.
type World struct {
	Pid        int // of its first process, as the agent sees it
	namespaces []namespace
	spawner    *thread
	files      filesPool
	isShared   bool
	isReadOnly bool
}

// Place says what a world is made of. The world of a further image has its name; the first has none.
// `IsShared`: there are several, and they have a directory in common.
type Place struct {
	Sysroot    string
	BootIdFile string
	Name       string
	Workdir    string // made where it is missing: later the disk may be closed
	IsShared   bool
}

// Worlds are all of a machine: the first, and one for each further image.
type Worlds struct {
	First   *World
	Further map[string]*World
}

// Find gives the world of that name, "" being the first; nil if there is none.
func (w *Worlds) Find(name string) *World {
	if name == "" {
		return w.First
	}
	return w.Further[name]
}

// Each calls for every world, and stops at an error.
func (w *Worlds) Each(work func(*World) error) error {
	if err := work(w.First); err != nil {
		return err
	}
	for _, further := range w.Further {
		if err := work(further); err != nil {
			return err
		}
	}
	return nil
}

type namespace struct {
	fd   int
	kind int
}

// Start makes the namespaces, with the place's root as theirs, and waits until everything is mounted.
func Start(place Place) (*World, error) {
	pid, err := startReaper(place)
	if err != nil {
		return nil, err
	}
	world := &World{Pid: pid, isShared: place.IsShared}
	for _, kind := range []struct {
		name string
		flag int
	}{{"mnt", linux.CloneNewns}, {"uts", linux.CloneNewuts}, {"ipc", linux.CloneNewipc}, {"pid", linux.CloneNewpid}} {
		path := "/proc/" + strconv.Itoa(pid) + "/ns/" + kind.name
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		world.namespaces = append(world.namespaces, namespace{fd, kind.flag})
	}
	world.spawner, err = newThread(world.becomeSpawner)
	world.files.world = world
	return world, err
}

func startReaper(place Place) (int, error) {
	var report [2]int
	if err := syscall.Pipe2(report[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	reader := os.NewFile(uintptr(report[0]), "report")
	defer reader.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", place.arguments(), &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, uintptr(report[1])},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: linux.CloneNewns | linux.CloneNewuts | linux.CloneNewipc | linux.CloneNewpid,
		},
	})
	syscall.Close(report[1])
	if err != nil {
		return 0, err
	}
	message, err := io.ReadAll(reader)
	if err == nil && string(message) != reportReady {
		err = errors.New("world: " + string(message))
	}
	return pid, err
}

// AwaitEnd calls when the first process has ended, and every other with it. Nothing inside can do
// that; only a kernel in distress.
func (w *World) AwaitEnd(ended func()) {
	fd, err := linux.PidfdOpen(w.Pid)
	if err != nil {
		return
	}
	syscall.SetNonblock(fd, true)
	raw, err := os.NewFile(uintptr(fd), "pidfd").SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(uintptr) bool {
		pid, _ := syscall.Wait4(w.Pid, nil, syscall.WNOHANG, nil)
		return pid == w.Pid
	})
	ended()
}

// Spawner runs work on the thread that starts commands: inside all namespaces, with the powers it
// needs, while what it starts can have no more than Capabilities.
func (w *World) Spawner(work func()) { w.spawner.run(work) }

func (w *World) becomeSpawner() error {
	if err := w.enter(); err != nil {
		return err
	}
	return linux.DropBounding(Capabilities)
}

// enter moves the calling thread, which must be locked, into the world.
func (w *World) enter() error {
	// The thread needs a root and a working directory of its own before it may change its mounts.
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return err
	}
	for _, namespace := range w.namespaces {
		if err := linux.Setns(namespace.fd, namespace.kind); err != nil {
			return err
		}
	}
	return nil
}
