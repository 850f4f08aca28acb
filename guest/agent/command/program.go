package command

import (
	"strings"
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// locate finds the program and the working directory of a command, as the account would find them.
// It runs on a thread inside the world whose filesystem identity it changes for a moment.
func locate(account accounts.Account, workdir, argv0, path string) (program string, err error) {
	err = asAccount(account, func() error {
		if err := checkWorkdir(workdir); err != nil {
			return err
		}
		program, err = findProgram(workdir, argv0, path)
		return err
	})
	return program, err
}

func checkWorkdir(workdir string) error {
	fd, err := syscall.Open(workdir, linux.OPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err == nil {
		syscall.Close(fd)
		err = linux.CanExecute(workdir)
	}
	if err != nil {
		return failure.New(failure.NoSuchWorkdir, failure.Readable(workdir)+": "+err.Error())
	}
	return nil
}

// findProgram searches as execvp does: a name with a slash is a path, any other is looked up in
// PATH, where a file that may not be executed is passed over but remembered.
func findProgram(workdir, argv0, path string) (string, error) {
	if argv0 == "" {
		return "", failure.New(failure.NotFound, "the program has no name")
	}
	if strings.Contains(argv0, "/") {
		candidate := inside(workdir, argv0)
		return candidate, explain(argv0, executable(candidate))
	}
	best := error(syscall.ENOENT)
	for _, directory := range strings.Split(path, ":") {
		candidate := inside(workdir, directory) + "/" + argv0
		err := executable(candidate)
		if err == nil {
			return candidate, nil
		}
		if err != syscall.ENOENT && err != syscall.ENOTDIR {
			best = err
		}
	}
	return "", explain(argv0, best)
}

// inside makes a path of the command absolute; an empty part of PATH is the working directory.
func inside(workdir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return strings.TrimSuffix(workdir+"/"+path, "/")
}

func executable(path string) error {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return syscall.EACCES
	}
	return linux.CanExecute(path)
}

// explain gives an error of looking up or executing a program its code.
func explain(program string, err error) error {
	if err == nil {
		return nil
	}
	code := failure.IO
	switch err {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG:
		code = failure.NotFound
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.EISDIR, syscall.ELOOP, syscall.ETXTBSY,
		syscall.ELIBBAD, syscall.EINVAL:
		code = failure.NotExecutable
	case syscall.E2BIG:
		code = failure.TooLarge
	}
	return failure.New(code, failure.Readable(program)+": "+err.Error())
}

// asAccount runs work with the account's right to files. Only this thread changes: these are raw
// calls, which Go does not spread over the whole process.
func asAccount(account accounts.Account, work func() error) error {
	if account.Uid == 0 {
		return work()
	}
	setGroups(account.Groups)
	syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(account.Gid), 0, 0)
	syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(account.Uid), 0, 0)
	err := work()
	syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	syscall.RawSyscall(syscall.SYS_SETFSGID, 0, 0, 0)
	setGroups(nil)
	return err
}
