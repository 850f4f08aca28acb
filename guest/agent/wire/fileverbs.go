package wire

import "encoding/binary"

type Read struct {
	Path           string
	Offset, Length uint64
}

func (m *Read) fields(b *body) { b.raw(&m.Path); b.u64(&m.Offset); b.u64(&m.Length) }

const (
	WriteAppend      = 1
	WriteMakeParents = 2
)

type Write struct {
	Path  string
	Mode  uint32
	Owner string
	Flags uint8
}

func (m *Write) fields(b *body) { b.raw(&m.Path); b.u32(&m.Mode); b.text(&m.Owner); b.u8(&m.Flags) }

type Stat struct {
	Path   string
	Follow uint8
}

func (m *Stat) fields(b *body) { b.raw(&m.Path); b.u8(&m.Follow) }

type ListDir struct{ Path string }

func (m *ListDir) fields(b *body) { b.raw(&m.Path) }

type Remove struct {
	Path      string
	Recursive uint8
}

func (m *Remove) fields(b *body) { b.raw(&m.Path); b.u8(&m.Recursive) }

type Rename struct{ Old, New string }

func (m *Rename) fields(b *body) { b.raw(&m.Old); b.raw(&m.New) }

type Mkdir struct {
	Path    string
	Mode    uint32
	Owner   string
	Parents uint8
}

func (m *Mkdir) fields(b *body) {
	b.raw(&m.Path)
	b.u32(&m.Mode)
	b.text(&m.Owner)
	b.u8(&m.Parents)
}

type TarOut struct {
	Root  string
	Names []string
}

func (m *TarOut) fields(b *body) { b.raw(&m.Root); listOf(b, &m.Names, 4, (*body).raw) }

type TarIn struct{ Root, Owner string }

func (m *TarIn) fields(b *body) { b.raw(&m.Root); b.text(&m.Owner) }

type Tree struct {
	Root string
	Hash uint8
}

func (m *Tree) fields(b *body) { b.raw(&m.Root); b.u8(&m.Hash) }

type SizeResult struct{ Size uint64 }

func (m *SizeResult) fields(b *body) { b.u64(&m.Size) }

type CountResult struct{ Count uint64 }

func (m *CountResult) fields(b *body) { b.u64(&m.Count) }

const (
	TypeFile      = 0
	TypeDirectory = 1
	TypeSymlink   = 2
	TypeOther     = 3
)

type Entry struct {
	Name     string
	Type     uint8
	Mode     uint32
	Size     uint64
	MtimeNs  uint64
	Uid, Gid uint32
	Target   string
	Sha256   string
}

func (m *Entry) fields(b *body) {
	b.raw(&m.Name)
	b.upTo(&m.Type, TypeOther)
	b.u32(&m.Mode)
	b.u64(&m.Size)
	b.u64(&m.MtimeNs)
	b.u32(&m.Uid)
	b.u32(&m.Gid)
	b.raw(&m.Target)
	b.raw(&m.Sha256)
}

type StatResult struct{ Entry Entry }

func (m *StatResult) fields(b *body) { m.Entry.fields(b) }

// AppendRecord adds an entry with its length in front, as LISTDIR and TREE send them.
func AppendRecord(buffer []byte, entry *Entry) []byte {
	at := len(buffer)
	buffer = AppendBody(append(buffer, 0, 0, 0, 0), entry)
	binary.LittleEndian.PutUint32(buffer[at:], uint32(len(buffer)-at-4))
	return buffer
}
