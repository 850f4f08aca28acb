// The guest agent: first process of a machine, and the host's hand inside it. See ../PROTOCOL.md.
package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"crucible.dev/agent/boot"
	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/command"
	"crucible.dev/agent/identity"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/network"
	"crucible.dev/agent/service"
	"crucible.dev/agent/system"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

// version is set by the linker.
var version = "dev"

const (
	portName     = "crucible.agent"
	memoryLimit  = 24 << 20 // every sandbox pays for the agent's memory
	threadsOfGo  = 2
	consoleDelay = 100 * time.Millisecond
)

func main() {
	if len(os.Args) == 3 && os.Args[0] == world.ReaperName {
		world.RunReaper(os.Args[1], os.Args[2])
	}
	if os.Getpid() != 1 {
		os.Stderr.WriteString("crucible-agent " + version + " is the first process of a machine, not a program to run\n")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(threadsOfGo)
	debug.SetMemoryLimit(memoryLimit)
	linux.LeaveSignal(syscall.SIGCHLD) // children are waited for by their pidfd: the signal would only be taken and dropped
	fatal(run())
}

// fatal says why on the console and turns the machine off: nobody could use it any more.
func fatal(err error) {
	os.Stderr.WriteString("crucible-agent: fatal: " + err.Error() + "\n")
	time.Sleep(consoleDelay) // the console is slow and the power is not
	system.PowerOff(boot.Sysroot, boot.Disk)
}

// run never returns unless the machine is of no more use.
func run() error {
	if err := boot.Up(); err != nil {
		return err
	}
	if err := calmWatcher(); err != nil {
		return err
	}
	groups, err := cgroup.NewUser(system.MemoryTotal(), system.MemoryAvailable())
	if err != nil {
		return err
	}
	place, err := world.Start(boot.Sysroot, boot.BootIdFile)
	if err != nil {
		return err
	}
	go place.AwaitEnd(func() { fatal(errors.New("the user's world has ended")) })
	commands, err := command.NewStarter(place, groups)
	if err != nil {
		return err
	}
	names, err := identity.New(place, boot.BootIdFile, boot.Names)
	if err != nil {
		return err
	}
	path, err := channel.FindPort(portName)
	if err != nil {
		return err
	}
	port, err := channel.OpenPort(path)
	if err != nil {
		return err
	}
	host := &service.Service{
		Commands: commands,
		Identity: names,
		Machine:  &system.Machine{User: groups, Disk: boot.Disk, DiskDev: boot.DiskDev, Sysroot: boot.Sysroot},
		World:    place,
		Network:  network.Open(),
	}
	commands.IsFrozen = func() bool { return host.State() == wire.StateFrozen }
	exchange := channel.OpenExchange(boot.ExchangeDev)
	link := channel.NewLink(port, exchange, "crucible-agent "+version, host.Open, host.State)
	host.Link, commands.Link = link, link
	return link.Run()
}
