// Package nsexec lets the first of several images run commands in the others. The program of that name asks
// the agent, over a socket in the first world, and hands its own standard streams over.
package nsexec

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

const (
	socketPath  = "/run/nsexec.sock"
	requestMost = 128 << 10
	answerMost  = 64 << 10

	answerResult  = 0
	answerFailure = 1

	statusFailed        = 125
	statusNotExecutable = 126
	statusNotFound      = 127
	statusSignalled     = 128

	usage = `usage: nsexec [-e NAME=VALUE]... [-w DIRECTORY] [-u USER] IMAGE [--] COMMAND [ARGUMENT]...

Runs a command in another image of this sandbox: with its files, its user and directory,
among its own processes. Variables that you set go along. -u is for root.
`
)

// Run is the program. It does not return.
func Run(arguments []string) {
	request, err := parse(arguments)
	if err != nil {
		os.Stderr.WriteString("nsexec: " + err.Error() + "\n" + usage)
		os.Exit(statusFailed)
	}
	request.Env = append(environment(os.Environ()), request.Env...)
	status, err := ask(request)
	if err != nil {
		os.Stderr.WriteString("nsexec: " + err.Error() + "\n")
	}
	os.Exit(status)
}

// parse reads the words after the program's own name.
func parse(words []string) (*wire.ExecIn, error) {
	request := &wire.ExecIn{}
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		option := words[0]
		words = words[1:]
		if option == "--" {
			break
		}
		if len(words) == 0 {
			return nil, failure.New(failure.BadRequest, option+" needs a value, or is no option")
		}
		switch option {
		case "-e":
			name, value, isPair := strings.Cut(words[0], "=")
			if !isPair || name == "" {
				return nil, failure.New(failure.BadRequest, "-e takes NAME=VALUE")
			}
			request.Env = append(request.Env, wire.Pair{Name: name, Value: value})
		case "-w":
			request.Workdir = words[0]
		case "-u":
			request.User = words[0]
		default:
			return nil, failure.New(failure.BadRequest, "there is no option "+option)
		}
		words = words[1:]
	}
	if len(words) > 0 {
		request.Image, words = words[0], words[1:]
	}
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if request.Image == "" || len(words) == 0 {
		return nil, failure.New(failure.BadRequest, "an image and a command are needed")
	}
	request.Argv = words
	return request, nil
}

func environment(entries []string) (pairs []wire.Pair) {
	for _, entry := range entries {
		if name, value, isPair := strings.Cut(entry, "="); isPair && name != "" {
			pairs = append(pairs, wire.Pair{Name: name, Value: value})
		}
	}
	return pairs
}

// ask has the agent run it, and gives the status to end with.
func ask(request *wire.ExecIn) (int, error) {
	body := wire.Encode(request)
	if len(body) > requestMost {
		return statusFailed, failure.New(failure.TooLarge, "the command and its environment are too long")
	}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return statusFailed, err
	}
	// Before the agent knows of the command: none that comes meanwhile is lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := syscall.Connect(socket, &syscall.SockaddrUnix{Name: socketPath}); err != nil {
		return statusFailed, &os.PathError{Op: "connect", Path: socketPath, Err: err}
	}
	if err := syscall.Sendmsg(socket, body, syscall.UnixRights(0, 1, 2), nil, 0); err != nil {
		return statusFailed, os.NewSyscallError("send", err)
	}
	go func() {
		for each := range signals {
			syscall.Write(socket, []byte{byte(each.(syscall.Signal))})
		}
	}()
	answer := make([]byte, answerMost)
	for {
		count, err := syscall.Read(socket, answer)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return statusFailed, os.NewSyscallError("read", err)
		}
		return conclude(answer[:count])
	}
}

func conclude(answer []byte) (int, error) {
	if len(answer) > 0 && answer[0] == answerResult {
		var result wire.ExecResult
		if err := wire.Decode(answer[1:], &result); err == nil {
			if result.How == wire.HowKilled {
				return statusSignalled + int(result.Code), nil
			}
			return int(result.Code), nil
		}
	}
	if len(answer) > 0 && answer[0] == answerFailure {
		var failed wire.Failure
		if err := wire.Decode(answer[1:], &failed); err == nil {
			return statusOf(failed.Code), failure.New(failed.Code, failed.Message)
		}
	}
	return statusFailed, failure.New(failure.IO, "no answer came ("+strconv.Itoa(len(answer))+" bytes)")
}

func statusOf(code string) int {
	switch code {
	case failure.NotFound:
		return statusNotFound
	case failure.NotExecutable:
		return statusNotExecutable
	}
	return statusFailed
}
