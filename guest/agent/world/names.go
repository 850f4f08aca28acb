package world

import (
	"os"
	"syscall"
)

const (
	namesFile = "/resolv.conf"

	// Answers come from the agent, at once or not at all. No domain is searched: every name would be
	// found in the first one. There are no IPv6 addresses of names, so libraries that know how are told not to ask.
	resolvConf = "nameserver 198.18.0.2\nsearch .\noptions timeout:3 attempts:2 no-aaaa\n"
)

// showNames puts the one name server there is where programs look for it, whatever the image has there.
func showNames(root string) error {
	if err := os.WriteFile(namesFile, []byte(resolvConf), 0o444); err != nil {
		return err
	}
	etc := root + "/etc"
	if info, err := os.Lstat(etc); err != nil || !info.IsDir() {
		if err := makeDirectory(etc, 0o755); err != nil {
			return err
		}
	}
	target := etc + "/resolv.conf"
	if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() {
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		file.Close()
	}
	return bind(namesFile, target, syscall.MS_RDONLY)
}
