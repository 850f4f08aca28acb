package network

import (
	"sync/atomic"
	"syscall"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/linux"
)

// gate is what turns the network on and off: a number that programs of the kernel read. Nothing else
// changes, since talking to the kernel about routes would slow every start.
type gate struct {
	fd   int
	flag *uint32
}

func newGate() (gate, error) {
	fd, flag, err := linux.Flag()
	return gate{fd, flag}, err
}

func (g gate) open() { atomic.StoreUint32(g.flag, 1) }
func (g gate) shut() { atomic.StoreUint32(g.flag, 0) }

// tellUnreachable makes the kernel say at once that there is no way while the gate is shut. It is for
// clarity only: the steering lets nothing through then.
func (g gate) tellUnreachable() error {
	for hook, program := range map[linux.Hook][]linux.Instruction{
		linux.HookConnectV4:  g.unreachable((*assembler).takeV4),
		linux.HookConnectV6:  g.unreachable((*assembler).takeV6),
		linux.HookDatagramV4: g.unreachable((*assembler).takeV4),
	} {
		if err := hang(hook, cgroup.Root, program); err != nil {
			return err
		}
	}
	return nil
}

// unreachable is a program that fails a call for an address outside while the gate is shut. What take adds
// puts an IPv4 address into r2, or has judged the address itself.
func (g gate) unreachable(take func(*assembler)) []linux.Instruction {
	const failed, passed = 0, 1
	p := &assembler{}
	p.move(r6, r1)
	p.jumpUnlessSet(g.fd, "shut")
	p.jump("pass")

	p.label("shut")
	take(p)
	p.jumpEqual(r2, 0, "pass") // any address is our own
	p.jumpEqual(r2, asRead(ownAddress), "pass")
	p.and(r2, 0xff)
	p.jumpEqual(r2, 127, "pass")

	p.label("fail")
	p.set(r1, -int32(syscall.ENETUNREACH))
	p.call(187) // bpf_set_retval
	p.set(r0, failed)
	p.exit()
	p.label("pass")
	p.set(r0, passed)
	p.exit()
	return p.finish()
}

// Where the kernel tells the program what address a call is for.
const (
	atUserIp4 = 4
	atUserIp6 = 8
)

func (a *assembler) takeV4() { a.load(r2, r6, atUserIp4) }

func (a *assembler) takeV6() {
	for _, word := range []int16{0, 4} {
		a.load(r2, r6, atUserIp6+word)
		a.jumpUnequal(r2, 0, "fail")
	}
	a.load(r3, r6, atUserIp6+8)
	a.load(r2, r6, atUserIp6+12)
	a.jumpEqual(r3, mappedV4, "mapped")
	a.jumpUnequal(r3, 0, "fail")
	a.jumpEqual(r2, 1<<24, "pass")
	a.jumpUnequal(r2, 0, "fail")
	a.label("mapped")
}

// mappedV4 is ::ffff:0:0/96 as the processor reads its third quarter.
const mappedV4 = -1 << 16
