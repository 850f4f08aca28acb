package world

import (
	"os"
	"strconv"
	"syscall"

	"crucible.dev/agent/linux"
)

const (
	namesFile = "/resolv.conf"

	// Answers come from the agent, at once or not at all. No domain is searched: every name would be
	// found in the first one. There are no IPv6 addresses of names, so libraries that know how are told not to ask.
	resolvConf = "nameserver 198.18.0.2\nsearch .\noptions timeout:3 attempts:2 no-aaaa\n"
)

// writeNames makes the file that tells programs the one name server there is. Its descriptor outlives the
// root that it lies in.
func writeNames() (int, error) {
	if err := os.WriteFile(namesFile, []byte(resolvConf), 0o444); err != nil {
		return -1, err
	}
	return syscall.Open(namesFile, linux.OPath|syscall.O_CLOEXEC, 0)
}

// showNames puts that file where programs look for it, whatever the image has there. It runs inside the
// new root, so that links of the image lead where they lead its programs.
func showNames(file int) error {
	return showFile(file, "/etc", "resolv.conf")
}

// showFile puts one of the agent's files in a directory of the image, read-only.
func showFile(file int, directory, name string) error {
	defer syscall.Close(file)
	target, err := clearFile(directory, name)
	if err != nil {
		return err
	}
	return bind(descriptorPath(file), target, syscall.MS_RDONLY)
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// clearFile makes sure of a plain file to mount upon.
func clearFile(directory, name string) (string, error) {
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		if err := makeDirectory(directory, 0o755); err != nil {
			return "", err
		}
	}
	target := directory + "/" + name
	if info, err := os.Lstat(target); err == nil && info.Mode().IsRegular() {
		return target, nil
	}
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	return target, file.Close()
}
