package wire

import "encoding/binary"

const WatchRecursive = 1

type Watch struct {
	Path  string
	Flags uint8
}

func (m *Watch) fields(b *body) { b.raw(&m.Path); b.upTo(&m.Flags, WatchRecursive) }

const (
	ChangeCreated    = 0
	ChangeWritten    = 1
	ChangeRemoved    = 2
	ChangeRenamed    = 3
	ChangeAttributes = 4
	ChangeOverflow   = 5
)

// Change is something that happened to a name below a watched directory.
type Change struct {
	Kind uint8
	Name string
}

func (m *Change) fields(b *body) { b.upTo(&m.Kind, ChangeOverflow); b.raw(&m.Name) }

// AppendChange adds a change with its length in front.
func AppendChange(buffer []byte, change *Change) []byte {
	at := len(buffer)
	buffer = AppendBody(append(buffer, 0, 0, 0, 0), change)
	binary.LittleEndian.PutUint32(buffer[at:], uint32(len(buffer)-at-4))
	return buffer
}
