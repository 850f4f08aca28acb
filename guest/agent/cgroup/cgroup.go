// Package cgroup fences the user's processes: one group for all of them, one below it per command.
package cgroup

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	Root = "/sys/fs/cgroup"
	user = Root + "/user"

	reserveBytes = 16 << 20 // for the agent and what the kernel does not account, besides a fortieth
	pidsLeast    = 256
	pidsMost     = 4096

	// Longer than a short command takes on an emulated processor, the first one in a fresh machine included.
	quietDelay = 500 * time.Millisecond

	// The clock goes on while a busy host does not let the machine run.
	freezePatience = 30 * time.Second
)

// User is the group that holds everything the user runs.
type User struct {
	preparing sync.Mutex

	mutex  sync.Mutex
	serial uint64
	spare  *Group
	stale  []string // directories of groups whose last process has not ended yet

	isFrozen atomic.Bool
}

// NewUser fences the user's world so that no fork bomb or memory hog can starve the agent.
func NewUser(memoryTotal, memoryAvailable uint64) (*User, error) {
	if err := put(Root+"/cgroup.subtree_control", "+memory +pids"); err != nil {
		return nil, err
	}
	// With this the scheduler weighs all of the user's processes together against the agent, and below
	// each command as a whole against the others. A kernel without it only makes them slower under a
	// fork bomb.
	put(Root+"/cgroup.subtree_control", "+cpu")
	if err := os.Mkdir(user, 0o755); err != nil {
		return nil, err
	}
	if err := put(user+"/cgroup.subtree_control", "+memory +pids"); err != nil {
		return nil, err
	}
	put(user+"/cgroup.subtree_control", "+cpu")
	if err := put(user+"/memory.max", strconv.FormatUint(share(memoryTotal, memoryAvailable), 10)); err != nil {
		return nil, err
	}
	pids := memoryTotal >> 20 * 4
	if pids < pidsLeast {
		pids = pidsLeast
	}
	if pids > pidsMost {
		pids = pidsMost
	}
	if err := put(user+"/pids.max", strconv.FormatUint(pids, 10)); err != nil {
		return nil, err
	}
	group := &User{}
	group.prepareNext()
	return group, nil
}

// share is what the user may have of the memory that was free when nothing ran yet. Closer to the
// brink the machine would thrash for minutes before the kernel decides to kill.
func share(total, available uint64) uint64 {
	reserve := reserveBytes + total/40
	if reserve > available/2 {
		reserve = available / 2
	}
	return available - reserve
}

// Take returns a fresh group. One is always made ahead, because making it is slow.
func (u *User) Take() (*Group, error) {
	u.mutex.Lock()
	group := u.spare
	u.spare = nil
	u.mutex.Unlock()
	if group == nil {
		return u.make()
	}
	return group, nil
}

// PrepareSoon does the slow work in a quiet moment, out of the way of the command that caused it.
func (u *User) PrepareSoon() { time.AfterFunc(quietDelay, u.prepareNext) }

// prepareNext makes the next group ahead of its use and removes those that have become empty.
func (u *User) prepareNext() {
	if !u.preparing.TryLock() {
		return
	}
	defer u.preparing.Unlock()
	u.mutex.Lock()
	hasSpare := u.spare != nil
	stale := u.stale
	u.stale = nil
	u.mutex.Unlock()
	for _, path := range stale {
		u.remove(path)
	}
	if hasSpare {
		return
	}
	group, err := u.make()
	if err != nil {
		return // the next command makes its own, or says why it cannot
	}
	u.mutex.Lock()
	u.spare = group
	u.mutex.Unlock()
}

func (u *User) make() (*Group, error) {
	u.mutex.Lock()
	u.serial++
	path := user + "/exec-" + strconv.FormatUint(u.serial, 10)
	u.mutex.Unlock()
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	fd, err := syscall.Open(path, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Group{path: path, Fd: fd, user: u}, nil
}

func (u *User) remove(path string) {
	if err := syscall.Rmdir(path); err != syscall.EBUSY {
		return
	}
	u.removeLater(path)
}

func (u *User) removeLater(path string) {
	u.mutex.Lock()
	u.stale = append(u.stale, path)
	u.mutex.Unlock()
}

// Freeze stops every process of the user and waits until all have stopped. Where there is none, as in
// a template, nothing is done that each copy would have to undo. The caller lets none begin meanwhile.
func (u *User) Freeze() error {
	if number(user+"/cgroup.events", "populated") == 0 {
		return nil
	}
	u.isFrozen.Store(true)
	if err := put(user+"/cgroup.freeze", "1"); err != nil {
		return err
	}
	for deadline := time.Now().Add(freezePatience); ; time.Sleep(time.Millisecond) {
		if number(user+"/cgroup.events", "frozen") == 1 {
			return nil
		}
		if time.Now().After(deadline) {
			u.Thaw()
			return errors.New("the user's processes did not stop")
		}
	}
}

func (u *User) Thaw() error {
	if !u.isFrozen.Load() {
		return nil
	}
	if err := put(user+"/cgroup.freeze", "0"); err != nil {
		return err
	}
	u.isFrozen.Store(false)
	return nil
}

// Kill ends every process of the user at once.
func (u *User) Kill() error { return put(user+"/cgroup.kill", "1") }

// Pids lists the user's processes.
func (u *User) Pids() (pids []int) {
	entries, _ := os.ReadDir(user)
	for _, entry := range entries {
		if entry.IsDir() {
			pids = append(pids, pidsOf(user+"/"+entry.Name())...)
		}
	}
	return pids
}

// Usage is what the user's world has used.
type Usage struct{ CpuNs, Memory, MemoryPeak, Processes, OomKills uint64 }

func (u *User) Usage() Usage {
	return Usage{
		CpuNs:      number(user+"/cpu.stat", "usage_usec") * 1000,
		Memory:     number(user+"/memory.current", ""),
		MemoryPeak: number(user+"/memory.peak", ""),
		Processes:  number(user+"/pids.current", ""),
		OomKills:   number(user+"/memory.events", "oom_kill"),
	}
}

// put writes one control file; the kernel wants each value in one write.
func put(path, value string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	if _, err := syscall.Write(fd, []byte(value)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// number reads a control file: the value of a key, or the only value when key is empty. What the
// kernel does not offer is 0.
func number(path, key string) uint64 {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	var content [2048]byte
	count, err := syscall.Read(fd, content[:])
	if err != nil {
		return 0
	}
	return findNumber(content[:count], key)
}

func findNumber(content []byte, key string) uint64 {
	for _, line := range bytes.Split(content, []byte("\n")) {
		name, value := "", string(line)
		if key != "" {
			name, value, _ = strings.Cut(value, " ")
		}
		if name == key {
			parsed, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return parsed
		}
	}
	return 0
}

func pidsOf(path string) (pids []int) {
	content, _ := os.ReadFile(path + "/cgroup.procs")
	for _, line := range strings.Fields(string(content)) {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
