package cgroup

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Group holds one command and everything it starts.
type Group struct {
	Fd   int // the directory, to start processes in
	path string
	user *User
}

func (g *Group) LimitMemory(bytes uint64) error {
	return put(g.path+"/memory.max", strconv.FormatUint(bytes, 10))
}

func (g *Group) LimitProcesses(count uint64) error {
	return put(g.path+"/pids.max", strconv.FormatUint(count, 10))
}

// Kill ends every process of the group, however it was started and wherever it hides.
func (g *Group) Kill() error { return put(g.path+"/cgroup.kill", "1") }

func (g *Group) CpuNs() uint64     { return number(g.path+"/cpu.stat", "usage_usec") * 1000 }
func (g *Group) PeakBytes() uint64 { return number(g.path+"/memory.peak", "") }

// OomKills counts the processes of this group that were killed for want of memory, whether the
// group's own limit, the user's or the machine's was reached.
func (g *Group) OomKills() uint64 { return number(g.path+"/memory.events", "oom_kill") }

// RefusedForks counts the processes that could not be started because the group had its most.
func (g *Group) RefusedForks() uint64 { return number(g.path+"/pids.events", "max") }

// Pids lists the group's processes.
func (g *Group) Pids() []int { return pidsOf(g.path) }

// CloseFd gives up the descriptor once the command runs.
func (g *Group) CloseFd() {
	if g.Fd >= 0 {
		syscall.Close(g.Fd)
		g.Fd = -1
	}
}

// Release lets the group be removed once its last process has ended.
func (g *Group) Release() {
	g.CloseFd()
	g.user.removeLater(g.path)
	g.user.PrepareSoon()
}

// OpenGroupOf opens the directory of the group that a process of the user is in.
func OpenGroupOf(pid int) (int, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return -1, err
	}
	name, isOurs := strings.CutPrefix(strings.TrimSpace(string(content)), "0::/user/exec-")
	if _, err := strconv.ParseUint(name, 10, 64); !isOurs || err != nil {
		return -1, errors.New("the process is in no group of a command")
	}
	return syscall.Open(user+"/exec-"+name, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
}
