// Package etc reads and writes the small files by which programs know names. An image or a user may have
// put anything in their place.
package etc

import (
	"io"
	"os"
	"strings"
	"syscall"
)

const smallMost = 1 << 20

// ReadSmall reads what is there, if it is a file of a sensible size. Anything else is as good as none:
// it is replaced, and reading a pipe would wait for ever.
func ReadSmall(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > smallMost {
		return ""
	}
	content, err := io.ReadAll(io.LimitReader(file, smallMost))
	if err != nil {
		return ""
	}
	return string(content)
}

// HostsWith makes the hostname resolve to this machine, in place of the name it had before.
func HostsWith(hosts, old, name string) string {
	if strings.TrimSpace(hosts) == "" {
		hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	}
	hosts = strings.ReplaceAll("\n"+hosts, "\n127.0.1.1\t"+old+"\n", "\n")[1:]
	for _, line := range strings.Split(hosts, "\n") {
		fields := strings.Fields(line)
		for index, field := range fields {
			if index > 0 && field == name && !strings.HasPrefix(fields[0], "#") {
				return hosts
			}
		}
	}
	if !strings.HasSuffix(hosts, "\n") {
		hosts += "\n"
	}
	return hosts + "127.0.1.1\t" + name + "\n"
}

// Rewrite changes a file in place. A user may have put anything under its name, which is then
// replaced rather than followed.
func Rewrite(path, content string, mode uint32) error {
	flags := syscall.O_WRONLY | syscall.O_CREAT | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	fd, err := syscall.Open(path, flags, mode)
	var stat syscall.Stat_t
	if err == nil {
		err = syscall.Fstat(fd, &stat)
	}
	if err != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if fd >= 0 {
			syscall.Close(fd)
		}
		if fd, err = syscall.Open(path, flags|syscall.O_EXCL, mode); err != nil {
			return err
		}
	}
	defer syscall.Close(fd)
	return Overwrite(fd, content)
}

func Overwrite(fd int, content string) error {
	if _, err := syscall.Pwrite(fd, []byte(content), 0); err != nil {
		return err
	}
	return syscall.Ftruncate(fd, int64(len(content)))
}
