package world

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"crucible.dev/agent/boot"
	"crucible.dev/agent/etc"
	"crucible.dev/agent/linux"
)

const (
	// Shared is the one directory that the worlds of several images have in common.
	Shared = "/workspace"

	// certificates are what the host lets programs trust; further worlds see those of the first.
	certificates = "/usr/local/share/crucible"

	entererDirectory = "/usr/bin"
	agentFile        = "/init"

	// What one world writes there must give nobody powers in another.
	powerless = syscall.MS_NOSUID | syscall.MS_NODEV
)

// EntererName is the program with which the first world starts commands in another. It is this binary.
const EntererName = "nsexec"

// commons are descriptors of what a world shares with others, opened before their paths are out of sight.
type commons struct {
	place        Place
	agent        int // the binary
	first        int // the root of the first world
	workspace    int
	certificates int
	machineId    int
}

func (p Place) openCommons() (*commons, error) {
	if !p.IsShared {
		return nil, nil
	}
	c := &commons{place: p}
	const directory = linux.OPath | syscall.O_DIRECTORY | syscall.O_CLOEXEC
	var err error
	if p.Name == "" {
		c.agent, err = syscall.Open(agentFile, linux.OPath|syscall.O_CLOEXEC, 0)
		return c, err
	}
	if c.first, err = syscall.Open(boot.Sysroot, directory, 0); err != nil {
		return nil, err
	}
	if c.workspace, err = linux.OpenInRoot(c.first, Shared, directory); err != nil {
		return nil, &os.PathError{Op: "open", Path: Shared, Err: err}
	}
	if c.certificates, err = linux.OpenInRoot(c.first, certificates, directory); err != nil {
		return nil, &os.PathError{Op: "open", Path: certificates, Err: err}
	}
	c.machineId, err = syscall.Open(boot.MachineIdFile, linux.OPath|syscall.O_CLOEXEC, 0)
	return c, err
}

// share runs inside the new root, so that links of the image lead where they lead its programs.
func (c *commons) share() error {
	if c == nil {
		return nil
	}
	if c.place.Name == "" {
		return c.shareFirst()
	}
	return c.shareFurther()
}

func (c *commons) shareFirst() error {
	if err := directoryFor(Shared, 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := directoryFor(certificates, 0o755); err != nil {
		return err
	}
	if err := mount(Shared, Shared, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := restrictShared(0); err != nil {
		return err
	}
	if err := directoryFor(entererDirectory, 0o755); err != nil {
		return err
	}
	return c.showEnterer()
}

// showEnterer is a bind of our own binary: it must stay executable, so it is not harmless as other files are.
func (c *commons) showEnterer() error {
	defer syscall.Close(c.agent)
	target, err := clearFile(entererDirectory, EntererName)
	if err != nil {
		return err
	}
	if err := mount(descriptorPath(c.agent), target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|powerless|syscall.MS_RDONLY, "")
}

func (c *commons) shareFurther() error {
	if err := directoryFor(Shared, 0o755); err != nil {
		return err
	}
	if err := mount(descriptorPath(c.workspace), Shared, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := restrictShared(0); err != nil {
		return err
	}
	if err := directoryFor(certificates, 0o755); err != nil {
		return err
	}
	if err := bind(descriptorPath(c.certificates), certificates, syscall.MS_RDONLY); err != nil {
		return err
	}
	if err := showFile(c.machineId, "/etc", "machine-id"); err != nil {
		return err
	}
	if err := c.name(); err != nil {
		return err
	}
	os.MkdirAll(c.place.Workdir, 0o755) // a command that lacks it says so
	// Nothing of the first world's root stays but the two directories.
	if err := syscall.Unmount(descriptorPath(c.first), syscall.MNT_DETACH); err != nil {
		return &os.PathError{Op: "unmount", Path: boot.Sysroot, Err: err}
	}
	for _, fd := range []int{c.first, c.workspace, c.certificates} {
		syscall.Close(fd)
	}
	return nil
}

// name calls the world by its image's name, in files only where they do not say so yet.
func (c *commons) name() error {
	if err := syscall.Sethostname([]byte(c.place.Name)); err != nil {
		return err
	}
	if own := c.place.Name + "\n"; etc.ReadSmall("/etc/hostname") != own {
		if err := etc.Rewrite("/etc/hostname", own, 0o644); err != nil {
			return err
		}
	}
	hosts := etc.ReadSmall("/etc/hosts")
	if wanted := etc.HostsWith(hosts, c.place.Name, c.place.Name); wanted != hosts {
		return etc.Rewrite("/etc/hosts", wanted, 0o644)
	}
	return nil
}

func restrictShared(flags uintptr) error {
	return mount("", Shared, "", syscall.MS_BIND|syscall.MS_REMOUNT|powerless|flags, "")
}

// directoryFor makes sure of a directory, and gives one that was not there this mode. What is in its way goes.
func directoryFor(path string, mode os.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(path); above != path {
		if err := directoryFor(above, 0o755); err != nil {
			return err
		}
	}
	return makeDirectory(path, mode)
}

// othersThan lists what else is mounted below the agent's own directories: images, and the roots of other
// worlds. The first one's root goes later, when nothing of it is needed any more.
func othersThan(sysroot string) (others []string) {
	images, _ := filepath.Glob(boot.FurtherImages + "/*")
	roots, _ := filepath.Glob(boot.FurtherRoots + "/*")
	for _, path := range append(images, roots...) {
		if strings.TrimSuffix(sysroot, "/") != path {
			others = append(others, path)
		}
	}
	return others
}
