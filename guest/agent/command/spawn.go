package command

import (
	"os"
	"strings"
	"syscall"
	"unsafe"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

// spawned is a command that has just been started.
type spawned struct {
	pid   int
	stdio *stdio
}

// spawn starts a command on the thread of its world, inside its group.
func (s *Starter) spawn(place *world.World, request *wire.Exec, group *cgroup.Group) (started spawned, err error) {
	place.Spawner(func() {
		var prepared *prepared
		if prepared, err = s.prepare(request); err != nil {
			return
		}
		if started.stdio, err = s.openStdio(request, prepared.account); err != nil {
			err = failure.About(err, "standard streams")
			return
		}
		defer started.stdio.closeChildSide()
		started.pid, err = s.start(prepared, request.Argv, started.stdio.child, started.stdio.isPty, group.Fd)
		if err != nil {
			started.stdio.close()
			return
		}
		applyLimits(request, started.pid, group)
	})
	return started, err
}

// StartWith starts a command with streams that are somebody else's, in a group that is there already. Its end
// is for Wait.
func (s *Starter) StartWith(place *world.World, request *wire.Exec, streams [3]int, group int) (process *Process, err error) {
	if err := check(request); err != nil {
		return nil, err
	}
	place.Spawner(func() {
		var prepared *prepared
		if prepared, err = s.prepare(request); err != nil {
			return
		}
		var pid int
		if pid, err = s.start(prepared, request.Argv, streams, false, group); err != nil {
			return
		}
		linux.Prlimit(pid, syscall.RLIMIT_NOFILE, usualFiles)
		if process, err = follow(pid); err != nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return process, err
}

// prepared is a command of which all is known that its world tells.
type prepared struct {
	account     accounts.Account
	program     string
	workdir     string
	environment []string
}

// prepare runs on the thread of the command's world.
func (s *Starter) prepare(request *wire.Exec) (*prepared, error) {
	// A child born frozen would never get to its program, and this thread would wait for it.
	if s.IsFrozen() {
		return nil, failure.New(failure.Frozen, "the machine is frozen")
	}
	account, err := accounts.Lookup(request.User)
	if err != nil {
		return nil, err
	}
	workdir := request.Workdir
	if workdir == "" {
		workdir = defaultWorkdir(account)
	}
	if request.Flags&wire.ExecMakeWorkdir != 0 {
		// Whether it is there now is for locate to say, in the words for a missing one.
		os.MkdirAll(workdir, 0o755)
	}
	environment := environmentOf(request, account)
	program, err := locate(account, workdir, request.Argv[0], lookup(environment, "PATH"))
	if err != nil {
		return nil, err
	}
	return &prepared{account, program, workdir, environment}, nil
}

func (s *Starter) start(command *prepared, argv []string, streams [3]int, isPty bool, group int) (int, error) {
	account := command.account
	pid, err := s.forkExec(command.program, argv, &syscall.ProcAttr{
		Dir:   command.workdir,
		Env:   command.environment,
		Files: []uintptr{uintptr(streams[0]), uintptr(streams[1]), uintptr(streams[2])},
		Sys: &syscall.SysProcAttr{
			Setsid:      true,
			Setctty:     isPty,
			Credential:  &syscall.Credential{Uid: account.Uid, Gid: account.Gid, Groups: account.Groups},
			UseCgroupFD: true,
			CgroupFD:    group,
		},
	})
	return pid, explain(argv[0], err)
}

// forkExec starts the program; one without a format that the kernel knows goes to the shell, as
// execvp has always done.
func (s *Starter) forkExec(program string, argv []string, attributes *syscall.ProcAttr) (int, error) {
	// A child inherits the score by which the kernel chooses whom to kill. It must not start with
	// the agent's protection, not even for the moment in which it could fork.
	s.oomScore.WriteAt([]byte("0"), 0)
	defer s.oomScore.WriteAt([]byte("-1000"), 0)
	pid, err := syscall.ForkExec(program, argv, attributes)
	if err == syscall.ENOEXEC {
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", program}, argv[1:]...), attributes)
	}
	return pid, err
}

func defaultWorkdir(account accounts.Account) string {
	if info, err := os.Stat(account.Home); err == nil && info.IsDir() && strings.HasPrefix(account.Home, "/") {
		return account.Home
	}
	return "/"
}

// environmentOf fills in what a login would have set.
func environmentOf(request *wire.Exec, account accounts.Account) []string {
	environment := make([]string, 0, len(request.Env)+6)
	for _, pair := range request.Env {
		environment = append(environment, pair.Name+"="+pair.Value)
	}
	defaults := []string{"PATH=" + defaultPath, "HOME=" + account.Home, "SHELL=" + account.Shell}
	if account.Name != "" {
		defaults = append(defaults, "USER="+account.Name, "LOGNAME="+account.Name)
	}
	if request.Flags&wire.ExecPty != 0 {
		defaults = append(defaults, "TERM=xterm-256color")
	}
	given := environment
	for _, entry := range defaults {
		name, _, _ := strings.Cut(entry, "=")
		if !has(given, name) {
			environment = append(environment, entry)
		}
	}
	return environment
}

func has(environment []string, name string) bool {
	for _, entry := range environment {
		if strings.HasPrefix(entry, name) && len(entry) > len(name) && entry[len(name)] == '=' {
			return true
		}
	}
	return false
}

func lookup(environment []string, name string) string {
	for _, entry := range environment {
		if strings.HasPrefix(entry, name+"=") {
			return entry[len(name)+1:]
		}
	}
	return ""
}

var usualFiles = syscall.Rlimit{Cur: 1024, Max: 524288}

var resourceOf = map[uint8]int{
	wire.LimitOpenFiles: syscall.RLIMIT_NOFILE,
	wire.LimitFileSize:  syscall.RLIMIT_FSIZE,
	wire.LimitCoreSize:  syscall.RLIMIT_CORE,
}

// applyLimits sets the limits of files, which a process can only be given once it exists, on all
// that the command may have started in the meantime. Those of the group were set before.
func applyLimits(request *wire.Exec, pid int, group *cgroup.Group) {
	linux.Prlimit(pid, syscall.RLIMIT_NOFILE, usualFiles)
	for _, limit := range request.Limits {
		resource, ok := resourceOf[limit.Resource]
		if !ok {
			continue
		}
		bound := syscall.Rlimit{Cur: limit.Value, Max: limit.Value}
		linux.Prlimit(pid, resource, bound)
		for _, other := range group.Pids() {
			linux.Prlimit(other, resource, bound)
		}
	}
}

// setGroups needs a pointer even for no groups at all.
func setGroups(groups []uint32) {
	list := append(groups[:len(groups):len(groups)], 0)
	syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0)
}
