// The guest agent: first process of a machine, and the host's hand inside it. See ../PROTOCOL.md.
package main

import (
	"errors"
	"os"
	"path"
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
	"crucible.dev/agent/nsexec"
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
	if len(os.Args) == 6 && os.Args[0] == world.ReaperName {
		world.RunReaper(os.Args)
	}
	if os.Getpid() != 1 && path.Base(os.Args[0]) == world.EntererName {
		nsexec.Run(os.Args[1:])
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
	machine, err := boot.Up()
	if err != nil {
		return err
	}
	if err := calmWatcher(); err != nil {
		return err
	}
	groups, err := cgroup.NewUser(system.MemoryTotal(), system.MemoryAvailable())
	if err != nil {
		return err
	}
	worlds, err := startWorlds(machine)
	if err != nil {
		return err
	}
	commands, err := command.NewStarter(worlds, groups)
	if err != nil {
		return err
	}
	names, err := identity.New(worlds.First, boot.BootIdFile, boot.Names)
	if err != nil {
		return err
	}
	found, err := channel.FindPort(portName)
	if err != nil {
		return err
	}
	port, err := channel.OpenPort(found)
	if err != nil {
		return err
	}
	host := &service.Service{
		Commands: commands,
		Identity: names,
		Machine:  &system.Machine{User: groups, Disk: boot.Disk, DiskDev: boot.DiskDev, Roots: machine.Roots()},
		World:    worlds.First,
		Worlds:   worlds,
		Network:  network.Open(),
	}
	commands.IsFrozen = func() bool { return host.State() == wire.StateFrozen }
	if machine.Composition != nil {
		if names.MachineId, err = os.OpenFile(boot.MachineIdFile, os.O_WRONLY, 0); err != nil {
			return err
		}
		if err := nsexec.NewServer(commands, worlds, machine.Composition).Serve(); err != nil {
			return err
		}
	}
	exchange := channel.OpenExchange(boot.ExchangeDev)
	link := channel.NewLink(port, exchange, "crucible-agent "+version, host.Open, host.State)
	host.Link, commands.Link = link, link
	return link.Run()
}

// startWorlds makes the first world before the others, which show two directories of it.
func startWorlds(machine *boot.Machine) (*world.Worlds, error) {
	worlds := &world.Worlds{Further: map[string]*world.World{}}
	place := world.Place{Sysroot: boot.Sysroot, BootIdFile: boot.BootIdFile, IsShared: machine.Composition != nil}
	var err error
	if worlds.First, err = world.Start(place); err != nil {
		return nil, err
	}
	if machine.Composition != nil {
		for _, part := range machine.Composition.Parts[1:] {
			place.Name, place.Workdir, place.Sysroot = part.Name, part.Workdir, boot.FurtherRoots+"/"+part.Name
			if worlds.Further[part.Name], err = world.Start(place); err != nil {
				return nil, err
			}
		}
	}
	return worlds, worlds.Each(func(each *world.World) error {
		go each.AwaitEnd(func() { fatal(errors.New("the user's world has ended")) })
		return nil
	})
}
