// Package command runs the user's commands: it starts them inside the world, carries their output
// to whichever host is there, and tells how they ended.
package command

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

const (
	commandsMost = 512 // running and finished; the oldest finished one makes room
	argv0Most    = 64  // so that LIST always fits one frame
)

// Starter knows all commands of the machine.
type Starter struct {
	Link     *channel.Link
	IsFrozen func() bool

	worlds   *world.Worlds
	groups   *cgroup.User
	oomScore *os.File
	nullFd   int

	mutex    sync.Mutex
	commands map[uint32]*Execution
}

func NewStarter(worlds *world.Worlds, groups *cgroup.User) (*Starter, error) {
	oomScore, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := oomScore.WriteAt([]byte("-1000"), 0); err != nil {
		return nil, err
	}
	nullFd, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Starter{
		worlds: worlds, groups: groups, oomScore: oomScore, nullFd: nullFd,
		commands: map[uint32]*Execution{},
	}, nil
}

// Open checks an EXEC and returns its endpoint; the link starts it once it can route to it.
func (s *Starter) Open(stream uint32, session uint64, body []byte) (channel.Endpoint, error) {
	request := &wire.Exec{}
	if err := wire.Decode(body, request); err != nil {
		return nil, failure.New(failure.BadRequest, err.Error())
	}
	return s.open(stream, session, s.worlds.First, request)
}

// OpenIn does the same for a command in the world of a further image.
func (s *Starter) OpenIn(stream uint32, session uint64, body []byte) (channel.Endpoint, error) {
	request := &wire.ExecIn{}
	if err := wire.Decode(body, request); err != nil {
		return nil, failure.New(failure.BadRequest, err.Error())
	}
	place := s.worlds.Find(request.Image)
	if place == nil || request.Image == "" {
		return nil, failure.New(failure.NotFound, "no image is called "+strconv.Quote(request.Image)+" here")
	}
	return s.open(stream, session, place, &request.Exec)
}

func (s *Starter) open(stream uint32, session uint64, place *world.World, request *wire.Exec) (channel.Endpoint, error) {
	if err := check(request); err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.commands) >= commandsMost && !s.evictFinished() {
		return nil, failure.New(failure.TooLarge, "too many commands are running")
	}
	execution := newExecution(s, stream, session, place, request)
	s.commands[stream] = execution
	return execution, nil
}

func check(request *wire.Exec) error {
	if len(request.Argv) == 0 {
		return failure.New(failure.BadRequest, "argv is empty")
	}
	for _, argument := range request.Argv {
		if strings.Contains(argument, "\x00") {
			return failure.New(failure.BadRequest, "an argument holds a NUL")
		}
	}
	for _, pair := range request.Env {
		if pair.Name == "" || strings.ContainsAny(pair.Name, "=\x00") || strings.Contains(pair.Value, "\x00") {
			return failure.New(failure.BadRequest, "a variable has no usable name or holds a NUL")
		}
	}
	if strings.Contains(request.Workdir, "\x00") || request.Workdir != "" && request.Workdir[0] != '/' {
		return failure.New(failure.BadRequest, "the working directory is not absolute")
	}
	if request.Flags&^(wire.ExecPty|wire.ExecInput|wire.ExecMakeWorkdir) != 0 {
		return failure.New(failure.BadRequest, "unknown flag")
	}
	for _, limit := range request.Limits {
		if limit.Resource < wire.LimitOpenFiles || limit.Resource > wire.LimitMemory {
			return failure.New(failure.BadRequest, "unknown limit")
		}
	}
	return nil
}

// evictFinished gives up the result that has waited longest, so that memory stays bounded even
// when no host ever forgets a stream.
func (s *Starter) evictFinished() bool {
	var oldest *Execution
	for _, execution := range s.commands {
		if execution.isFinished() && (oldest == nil || execution.startedNs < oldest.startedNs) {
			oldest = execution
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.commands, oldest.stream)
	s.Link.Remove(oldest.stream)
	go oldest.Drop()
	return true
}

func (s *Starter) forget(stream uint32) {
	s.mutex.Lock()
	delete(s.commands, stream)
	s.mutex.Unlock()
}

// List tells of every command that a host may still attach to.
func (s *Starter) List() *wire.ListResult {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	list := &wire.ListResult{}
	for _, execution := range s.commands {
		if item, ok := execution.listed(); ok {
			list.Execs = append(list.Execs, item)
		}
	}
	sort.Slice(list.Execs, func(a, b int) bool { return list.Execs[a].Stream < list.Execs[b].Stream })
	return list
}
