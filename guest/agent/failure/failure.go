// Package failure turns errors of the kernel into the codes that the host knows.
package failure

import (
	"errors"
	"syscall"

	"crucible.dev/agent/wire"
)

const (
	NotPrepared   = "not-prepared"
	Frozen        = "frozen"
	BadRequest    = "bad-request"
	NotFound      = "not-found"
	NotExecutable = "not-executable"
	NoSuchUser    = "no-such-user"
	NoSuchWorkdir = "no-such-workdir"
	Exists        = "exists"
	NotADirectory = "not-a-directory"
	IsADirectory  = "is-a-directory"
	Permission    = "permission"
	NoSpace       = "no-space"
	TooLarge      = "too-large"
	Refused       = "refused"
	Reset         = "reset"
	UnsafeArchive = "unsafe-archive"
	IO            = "io"
)

// Failure is an error with a code of the contract.
type Failure struct{ Code, Message string }

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

func New(code, message string) error { return &Failure{code, message} }

var codeOfErrno = map[syscall.Errno]string{
	syscall.ENOENT:       NotFound,
	syscall.EEXIST:       Exists,
	syscall.ENOTEMPTY:    Exists,
	syscall.ENOTDIR:      NotADirectory,
	syscall.EISDIR:       IsADirectory,
	syscall.EACCES:       Permission,
	syscall.EPERM:        Permission,
	syscall.EROFS:        Permission,
	syscall.EBUSY:        Permission,
	syscall.ENOSPC:       NoSpace,
	syscall.EDQUOT:       NoSpace,
	syscall.EFBIG:        TooLarge,
	syscall.E2BIG:        TooLarge,
	syscall.ENAMETOOLONG: TooLarge,
	syscall.ECONNREFUSED: Refused,
	syscall.EINVAL:       BadRequest,
}

// About says which thing an error of the kernel concerns. A failure passes unchanged.
func About(err error, subject string) error {
	var failed *Failure
	if err == nil || errors.As(err, &failed) {
		return err
	}
	var errno syscall.Errno
	code := IO
	if errors.As(err, &errno) {
		if known, ok := codeOfErrno[errno]; ok {
			code = known
		}
		err = errno
	}
	return New(code, Readable(subject)+": "+err.Error())
}

// Message is what goes over the wire for an error.
func Message(err error) *wire.Failure {
	var failed *Failure
	if !errors.As(err, &failed) {
		errors.As(About(err, "agent"), &failed)
	}
	return &wire.Failure{Code: failed.Code, Message: Readable(failed.Message)}
}

// Readable makes valid UTF-8 of a name and bounds it, since names are any bytes.
func Readable(name string) string {
	const most = 4096
	if len(name) > most {
		name = name[:most] + "…"
	}
	return string([]rune(name))
}
