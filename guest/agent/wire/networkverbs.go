package wire

import "encoding/binary"

// TakeWindowBytes is what the host may send unasked into a connection that it took.
const TakeWindowBytes = 32 << 10

// Ask is a connection that a program waits for, as LISTEN tells of it.
type Ask struct {
	Number  uint32
	Name    string
	Address string // 4 or 16 bytes
	Port    uint16
}

func (m *Ask) fields(b *body) {
	b.u32(&m.Number)
	b.raw(&m.Name)
	b.raw(&m.Address)
	b.u16(&m.Port)
	if len(m.Address) != 4 && len(m.Address) != 16 {
		b.fail("address")
	}
}

// AppendAsk adds an ask with its length in front.
func AppendAsk(buffer []byte, ask *Ask) []byte {
	at := len(buffer)
	buffer = AppendBody(append(buffer, 0, 0, 0, 0), ask)
	binary.LittleEndian.PutUint32(buffer[at:], uint32(len(buffer)-at-4))
	return buffer
}

// Take is the body of TAKE and of REFUSE.
type Take struct{ Number uint32 }

func (m *Take) fields(b *body) { b.u32(&m.Number) }
