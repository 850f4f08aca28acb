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
// port, and leaves alone what is for the machine itself.
func steer(sockets [slots]int) error {
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
	program, err := linux.LoadSkLookup(steering(found))
	if err != nil {
		return err
	}
	defer syscall.Close(program)
	namespace, err := syscall.Open("/proc/self/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(namespace)
	_, err = linux.AttachSkLookup(program, namespace) // never closed: it steers for as long as we live
	return err
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
func steering(sockets int) []linux.Instruction {
	const dropped, passed = 0, 1
	p := &assembler{labels: map[string]int{}}
	p.move(r6, r1)
	p.load(r2, r6, atProtocol)
	p.jumpEqual(r2, syscall.IPPROTO_UDP, "names")
	p.load(r2, r6, atFamily)
	p.jumpEqual(r2, syscall.AF_INET6, "v6")

	p.load(r2, r6, atLocalIp4)
	p.jumpEqual(r2, asRead(ownAddress), "pass")
	p.and(r2, 0xff)
	p.jumpEqual(r2, 127, "pass")
	p.set(r2, slotV4)
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
	p.set(r2, slotV6)
	p.jump("steer")

	p.label("names")
	p.load(r2, r6, atLocalIp4)
	p.jumpUnequal(r2, asRead(namesAddress), "pass")
	p.load(r2, r6, atLocalPort)
	p.jumpUnequal(r2, namesPort, "pass")
	p.set(r2, slotNames)

	p.label("steer")
	p.store(r10, -4, r2)
	p.loadMap(r1, sockets)
	p.move(r2, r10)
	p.add(r2, -4)
	p.call(1) // bpf_map_lookup_elem
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
