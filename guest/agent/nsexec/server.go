package nsexec

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/command"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

const (
	backlog      = 64
	callersMost  = 128
	requestWait  = 10 * time.Second
	frozenPause  = 5 * time.Millisecond
	streamsOfAll = 3
)

// Server runs what the first world asks for in others.
type Server struct {
	Commands *command.Starter
	Worlds   *world.Worlds

	parts   map[string]wire.Part // the further images by name
	first   map[string]string    // the variables of the first image itself
	callers atomic.Int32
}

func NewServer(commands *command.Starter, worlds *world.Worlds, composition *wire.Composition) *Server {
	s := &Server{Commands: commands, Worlds: worlds, parts: map[string]wire.Part{}, first: map[string]string{}}
	for _, pair := range composition.Parts[0].Env {
		s.first[pair.Name] = pair.Value
	}
	for _, part := range composition.Parts[1:] {
		s.parts[part.Name] = part
	}
	return s
}

// Serve answers for as long as the machine runs.
func (s *Server) Serve() error {
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	err = s.Worlds.First.Files(func() error {
		if err := syscall.Bind(socket, &syscall.SockaddrUnix{Name: socketPath}); err != nil {
			return &os.PathError{Op: "bind", Path: socketPath, Err: err}
		}
		return os.Chmod(socketPath, 0o666)
	})
	if err == nil {
		err = syscall.Listen(socket, backlog)
	}
	if err != nil {
		return err
	}
	raw, err := os.NewFile(uintptr(socket), "nsexec").SyscallConn()
	if err != nil {
		return err
	}
	go s.accept(raw)
	return nil
}

func (s *Server) accept(listener syscall.RawConn) {
	for {
		connection := -1
		var err error
		listener.Read(func(fd uintptr) bool {
			connection, _, err = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			return err != syscall.EAGAIN && err != syscall.EINTR && err != syscall.ECONNABORTED
		})
		if err != nil {
			time.Sleep(frozenPause) // as when the machine has no descriptor left
			continue
		}
		if s.callers.Add(1) > callersMost {
			s.callers.Add(-1)
			syscall.Close(connection)
			continue
		}
		go func() {
			defer s.callers.Add(-1)
			s.serve(&caller{fd: connection, file: os.NewFile(uintptr(connection), "caller")})
		}()
	}
}

func (s *Server) serve(c *caller) {
	defer c.file.Close()
	process, err := s.begin(c)
	if err != nil {
		c.answer(answerFailure, failure.Message(err))
		return
	}
	// It ends with its caller, and gets the signals that the caller got.
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.forward(process, ended)
	}()
	status := process.Wait()
	close(ended)
	c.answer(answerResult, resultOf(status))
	c.file.SetReadDeadline(time.Unix(1, 0))
	<-watched
}

func (s *Server) begin(c *caller) (*command.Process, error) {
	request, streams, err := c.request()
	defer closeAll(streams)
	if err != nil {
		return nil, err
	}
	part, ok := s.parts[request.Image]
	if !ok {
		return nil, failure.New(failure.BadRequest, "no image is called "+strconv.Quote(request.Image)+" here; there are: "+s.names())
	}
	for _, fd := range streams {
		if err := checkStream(fd); err != nil {
			return nil, err
		}
	}
	peer, err := syscall.GetsockoptUcred(c.fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	if request.User != "" && peer.Uid != 0 {
		return nil, failure.New(failure.Permission, "only root chooses who a command is in another image")
	}
	group, err := cgroup.OpenGroupOf(int(peer.Pid))
	if err != nil {
		return nil, err
	}
	defer syscall.Close(group)
	exec := s.fill(&request.Exec, part)
	for {
		process, err := s.Commands.StartWith(s.Worlds.Find(request.Image), exec, [3]int{streams[0], streams[1], streams[2]}, group)
		// The caller stands still too; it is to notice nothing.
		if failed, ok := err.(*failure.Failure); ok && failed.Code == failure.Frozen {
			time.Sleep(frozenPause)
			continue
		}
		return process, err
	}
}

// fill adds what the image says to what the caller asks.
func (s *Server) fill(asked *wire.Exec, part wire.Part) *wire.Exec {
	exec := &wire.Exec{Argv: asked.Argv, User: asked.User, Workdir: asked.Workdir}
	if exec.User == "" {
		exec.User = part.User
	}
	if exec.Workdir == "" {
		exec.Workdir = part.Workdir
		exec.Flags = wire.ExecMakeWorkdir
	}
	exec.Env = s.environment(asked.Env, part.Env)
	return exec
}

// ofEachWorld are variables that mean something else in every image.
var ofEachWorld = map[string]bool{
	"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "HOSTNAME": true,
	"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true,
}

// environment is the image's own, with what the caller has beyond its own image's.
func (s *Server) environment(given, own []wire.Pair) []wire.Pair {
	values := map[string]string{}
	for _, pair := range own {
		values[pair.Name] = pair.Value
	}
	for _, pair := range given {
		if value, isOfFirst := s.first[pair.Name]; ofEachWorld[pair.Name] || isOfFirst && value == pair.Value {
			continue
		}
		values[pair.Name] = pair.Value
	}
	pairs := make([]wire.Pair, 0, len(values))
	for name, value := range values {
		pairs = append(pairs, wire.Pair{Name: name, Value: value})
	}
	sort.Slice(pairs, func(a, b int) bool { return pairs[a].Name < pairs[b].Name })
	return pairs
}

func (s *Server) names() string {
	names := make([]string, 0, len(s.parts))
	for name := range s.parts {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func resultOf(status syscall.WaitStatus) *wire.ExecResult {
	if status.Signaled() {
		return &wire.ExecResult{How: wire.HowKilled, Code: uint32(status.Signal())}
	}
	return &wire.ExecResult{How: wire.HowExited, Code: uint32(status.ExitStatus())}
}
