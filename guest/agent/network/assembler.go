package network

import "crucible.dev/agent/linux"

type register uint8

const (
	r0 register = iota
	r1
	r2
	r3
	_
	_
	r6
	r7
	r8
	r9
	r10 // the end of the stack
)

// assembler writes the few instructions of the kernel's virtual machine that we use.
type assembler struct {
	program []linux.Instruction
	labels  map[string]int
	jumps   map[int]string
}

func (a *assembler) emit(code uint8, to, from register, offset int16, immediate int32) {
	a.program = append(a.program, linux.Instruction{
		Code: code, Registers: uint8(to) | uint8(from)<<4, Offset: offset, Immediate: immediate,
	})
}

func (a *assembler) move(to, from register)                     { a.emit(0xbf, to, from, 0, 0) }
func (a *assembler) set(to register, value int32)               { a.emit(0xb7, to, 0, 0, value) }
func (a *assembler) add(to register, value int32)               { a.emit(0x07, to, 0, 0, value) }
func (a *assembler) and(to register, value int32)               { a.emit(0x57, to, 0, 0, value) }
func (a *assembler) load(to, from register, offset int16)       { a.emit(0x61, to, from, offset, 0) }
func (a *assembler) store(to register, at int16, from register) { a.emit(0x63, to, from, at, 0) }
func (a *assembler) call(function int32)                        { a.emit(0x85, 0, 0, 0, function) }
func (a *assembler) exit()                                      { a.emit(0x95, 0, 0, 0, 0) }

// loadMap takes two instructions; the second only carries the upper half of the number.
func (a *assembler) loadMap(to register, fd int) {
	const pseudoMap = 1
	a.emit(0x18, to, pseudoMap, 0, int32(fd))
	a.emit(0, 0, 0, 0, 0)
}

func (a *assembler) jump(label string) { a.jumpBy(0x05, 0, 0, label) }

// lookUp leaves in r0 a pointer to what a map has under the number in a register, or zero.
func (a *assembler) lookUp(sought int, key register) {
	a.store(r10, -4, key)
	a.loadMap(r1, sought)
	a.move(r2, r10)
	a.add(r2, -4)
	a.call(1) // bpf_map_lookup_elem
}

// jumpUnlessSet looks at a flag; it spoils the first registers.
func (a *assembler) jumpUnlessSet(flag int, label string) {
	a.set(r0, 0)
	a.lookUp(flag, r0)
	a.jumpNull(r0, label)
	a.load(r1, r0, 0)
	a.jumpEqual(r1, 0, label)
}

// jumpNull compares the whole of a pointer, as the kernel's checker wants it.
func (a *assembler) jumpNull(of register, label string) { a.jumpBy(0x15, of, 0, label) }

// The other comparisons are of 32 bits, since a value would be extended by its sign.
func (a *assembler) jumpEqual(of register, value int32, label string) {
	a.jumpBy(0x16, of, value, label)
}
func (a *assembler) jumpUnequal(of register, value int32, label string) {
	a.jumpBy(0x56, of, value, label)
}

func (a *assembler) jumpBy(code uint8, of register, value int32, label string) {
	if a.jumps == nil {
		a.jumps, a.labels = map[int]string{}, map[string]int{}
	}
	a.jumps[len(a.program)] = label
	a.emit(code, of, 0, 0, value)
}

func (a *assembler) label(name string) { a.labels[name] = len(a.program) }

// finish fills in how far the jumps go.
func (a *assembler) finish() []linux.Instruction {
	for at, label := range a.jumps {
		a.program[at].Offset = int16(a.labels[label] - at - 1)
	}
	return a.program
}
