package network

import (
	"encoding/binary"
	"syscall"

	"crucible.dev/agent/linux"
)

// Places of our sockets in the map that the program looks them up in.
const (
	slotV4 = iota
	slotV6
	slotNames
	slots
)

// steer makes the kernel hand connections that would leave the machine to our sockets, whatever their
// port, and leaves alone what is for the machine itself. While flag is zero it drops them.
func steer(sockets [slots]int, flag int) error {
	found, err := linux.SocketMap(slots)
	if err != nil {
		return err
	}
	defer syscall.Close(found) // the program keeps it
	for slot, socket := range sockets {
		if socket < 0 {
			continue // without IPv6
		}
		if err := linux.SocketMapPut(found, uint32(slot), socket); err != nil {
			return err
		}
	}
	return hang(linux.HookSkLookup, "/proc/self/ns/net", steering(found, flag))
}

func hang(hook linux.Hook, path string, program []linux.Instruction) error {
	target, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(target)
	return linux.Hang(hook, target, program)
}

// Where the kernel tells the program what is being looked up.
const (
	atFamily    = 8
	atProtocol  = 12
	atLocalIp4  = 40
	atLocalIp6  = 44
	atLocalPort = 60
)

// steering is the program. Addresses are numbers as the processor reads the bytes of the wire, and both
// processors that we know read the first byte as the lowest.
func steering(sockets, flag int) []linux.Instruction {
	const dropped, passed = 0, 1
	p := &assembler{}
	p.move(r6, r1)
	p.load(r2, r6, atProtocol)
	p.jumpEqual(r2, syscall.IPPROTO_UDP, "names")
	p.load(r2, r6, atFamily)
	p.jumpEqual(r2, syscall.AF_INET6, "v6")

	p.load(r2, r6, atLocalIp4)
	p.jumpEqual(r2, asRead(ownAddress), "pass")
	p.and(r2, 0xff)
	p.jumpEqual(r2, 127, "pass")
	p.set(r9, slotV4)
	p.jump("steer")

	p.label("v6")
	p.load(r2, r6, atLocalIp6+12)
	p.jumpUnequal(r2, 1<<24, "outside")
	for word := int16(0); word < 12; word += 4 {
		p.load(r2, r6, atLocalIp6+word)
		p.jumpUnequal(r2, 0, "outside")
	}
	p.jump("pass")
	p.label("outside")
	p.set(r9, slotV6)
	p.jump("steer")

	p.label("names")
	p.load(r2, r6, atLocalIp4)
	p.jumpUnequal(r2, asRead(namesAddress), "pass")
	p.load(r2, r6, atLocalPort)
	p.jumpUnequal(r2, namesPort, "pass")
	p.set(r9, slotNames)

	p.label("steer")
	p.jumpUnlessSet(flag, "drop")
	p.lookUp(sockets, r9)
	p.jumpNull(r0, "drop")
	p.move(r7, r0)
	p.move(r1, r6)
	p.move(r2, r0)
	p.set(r3, 0)
	p.call(124) // bpf_sk_assign
	p.move(r8, r0)
	p.move(r1, r7)
	p.call(86) // bpf_sk_release
	p.jumpUnequal(r8, 0, "drop")
	p.label("pass")
	p.set(r0, passed)
	p.exit()
	// A server of the user's must not get what was meant for a host outside.
	p.label("drop")
	p.set(r0, dropped)
	p.exit()
	return p.finish()
}

func asRead(address [4]byte) int32 { return int32(binary.LittleEndian.Uint32(address[:])) }
