// Package identity makes a restored machine different from its siblings: its randomness, its clock
// and its names. It is on the way of every start, so it makes few calls and starts nothing.
package identity

import (
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"crucible.dev/agent/etc"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

const (
	entropyLeast = 32
	entropyMost  = 512

	machineIdPath = "/etc/machine-id"
	hostnamePath  = "/etc/hostname"
	hostsPath     = "/etc/hosts"

	rndAddEntropy = 0x40085203
	rndReseedCrng = 0x5207
)

// Identity remembers what it must replace the next time.
type Identity struct {
	world    *world.World
	random   *os.File
	bootId   *os.File
	layer    map[string]*os.File // what the world shows under these names until somebody changes it
	hostname string

	// MachineId is what the worlds of further images show as theirs; nil where there are none.
	MachineId *os.File
}

// New opens what Prepare needs and puts placeholders where the names will be.
func New(world *world.World, bootIdFile, layer string) (*Identity, error) {
	random, err := os.OpenFile("/dev/random", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	bootId, err := os.OpenFile(bootIdFile, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	identity := &Identity{world: world, random: random, bootId: bootId, hostname: "crucible"}
	if identity.layer, err = openLayer(layer, machineIdPath, hostnamePath, hostsPath); err != nil {
		return nil, err
	}
	err = world.Files(func() error {
		if err := os.MkdirAll("/etc", 0o755); err != nil {
			return err
		}
		return identity.writeNames("crucible", strings.Repeat("0", 32))
	})
	return identity, err
}

// Prepare gives the machine a new identity. It may be called any number of times.
func (i *Identity) Prepare(request *wire.Prepare) error {
	if err := check(request); err != nil {
		return err
	}
	if err := i.reseed(request.Entropy); err != nil {
		return failure.About(err, "/dev/random")
	}
	if err := linux.ClockSet(request.RealtimeNs); err != nil {
		return failure.About(err, "clock")
	}
	if _, err := i.bootId.WriteAt([]byte(request.BootId+"\n"), 0); err != nil {
		return failure.About(err, "boot id")
	}
	if i.MachineId != nil {
		if _, err := i.MachineId.WriteAt([]byte(request.MachineId+"\n"), 0); err != nil {
			return failure.About(err, "machine id")
		}
	}
	err := i.world.Unlocked(func() (err error) {
		i.world.Spawner(func() {
			if err = syscall.Sethostname([]byte(request.Hostname)); err == nil {
				err = i.writeNames(request.Hostname, request.MachineId)
			}
		})
		return err
	})
	return failure.About(err, "names")
}

func check(request *wire.Prepare) error {
	if len(request.Entropy) < entropyLeast || len(request.Entropy) > entropyMost {
		return failure.New(failure.BadRequest, "entropy must have 32 to 512 bytes")
	}
	if len(request.MachineId) != 32 || strings.Trim(request.MachineId, "0123456789abcdef") != "" {
		return failure.New(failure.BadRequest, "machine_id must be 32 hexadecimal digits")
	}
	if len(request.BootId) != 36 || strings.Trim(request.BootId, "0123456789abcdef-") != "" {
		return failure.New(failure.BadRequest, "boot_id must be a UUID")
	}
	if !isHostname(request.Hostname) {
		return failure.New(failure.BadRequest, "hostname must be 1 to 64 letters, digits, dots and hyphens")
	}
	return nil
}

func isHostname(name string) bool {
	if len(name) < 1 || len(name) > 64 {
		return false
	}
	for _, letter := range []byte(name) {
		isPlain := letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z' || letter >= '0' && letter <= '9'
		if !isPlain && letter != '-' && letter != '.' && letter != '_' {
			return false
		}
	}
	return true
}

// reseed credits the entropy in full and makes the generator use it at once: clones of one template
// would otherwise go on drawing the same numbers.
func (i *Identity) reseed(entropy string) error {
	request := make([]byte, 8, 8+len(entropy))
	binary.NativeEndian.PutUint32(request, uint32(len(entropy)*8))
	binary.NativeEndian.PutUint32(request[4:], uint32(len(entropy)))
	request = append(request, entropy...)
	if err := linux.Ioctl(int(i.random.Fd()), rndAddEntropy, unsafe.Pointer(&request[0])); err != nil {
		return err
	}
	return linux.Ioctl(int(i.random.Fd()), rndReseedCrng, nil)
}

// writeNames runs inside the world.
func (i *Identity) writeNames(hostname, machineId string) error {
	if err := i.write(machineIdPath, machineId+"\n", 0o444); err != nil {
		return err
	}
	if err := i.write(hostnamePath, hostname+"\n", 0o644); err != nil {
		return err
	}
	hosts := etc.ReadSmall(hostsPath)
	wanted := etc.HostsWith(hosts, i.hostname, hostname)
	i.hostname = hostname
	if wanted == hosts {
		return nil
	}
	return i.write(hostsPath, wanted, 0o644)
}

// write leaves the disk alone where it can. A file that was changed inside lies there, over the layer.
func (i *Identity) write(path, content string, mode uint32) error {
	if file := i.layer[path]; file != nil {
		if err := etc.Overwrite(int(file.Fd()), content); err != nil {
			return err
		}
		if etc.ReadSmall(path) == content {
			return nil
		}
	}
	return etc.Rewrite(path, content, mode)
}

func openLayer(root string, paths ...string) (map[string]*os.File, error) {
	layer := map[string]*os.File{}
	for _, path := range paths {
		file, err := os.OpenFile(root+path, os.O_WRONLY, 0)
		if os.IsNotExist(err) {
			continue // an image that goes without
		}
		if err != nil {
			return nil, err
		}
		layer[path] = file
	}
	return layer, nil
}
