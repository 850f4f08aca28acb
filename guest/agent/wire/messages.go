package wire

// Empty is the body of a verb or note that says nothing more.
type Empty struct{}

func (*Empty) fields(*body) {}

type Meeting struct {
	Nonce      [nonceBytes]byte
	Generation uint32
}

func (m *Meeting) fields(b *body) {
	b.magic()
	b.exactly(m.Nonce[:])
	b.u32(&m.Generation)
}

const (
	StateSealed = 0
	StateLive   = 1
	StateFrozen = 2
)

type Greeting struct {
	Meeting
	NextStream uint32
	State      uint8
	Agent      string
}

func (m *Greeting) fields(b *body) {
	m.Meeting.fields(b)
	b.u32(&m.NextStream)
	b.upTo(&m.State, StateFrozen)
	b.text(&m.Agent)
	if m.NextStream == 0 {
		b.fail("next stream")
	}
}

type Limit struct{ Limit uint64 }

func (m *Limit) fields(b *body) { b.u64(&m.Limit) }

type Offsets struct{ Output, Errors uint64 }

func (m *Offsets) fields(b *body) { b.u64(&m.Output); b.u64(&m.Errors) }

// Place is where the input of a FETCH lies in the exchange.
type Place struct {
	Offset uint64
	Length uint32
}

func (m *Place) fields(b *body) { b.u64(&m.Offset); b.u32(&m.Length) }

type Failure struct{ Code, Message string }

func (m *Failure) fields(b *body) { b.text(&m.Code); b.text(&m.Message) }

type NoteKind uint8

const (
	NoteStarted   NoteKind = 1
	NoteAttached  NoteKind = 2
	NoteConnected NoteKind = 3
	NoteSignal    NoteKind = 4
	NoteResize    NoteKind = 5
	NoteListening NoteKind = 6
	NoteWatching  NoteKind = 7
)

type Started struct{ Pid uint32 }

func (m *Started) fields(b *body) { b.u32(&m.Pid) }

type Attached struct{ Output, Errors, Input uint64 }

func (m *Attached) fields(b *body) { b.u64(&m.Output); b.u64(&m.Errors); b.u64(&m.Input) }

type Signal struct{ Number uint8 }

func (m *Signal) fields(b *body) { b.u8(&m.Number) }

type Resize struct{ Rows, Columns uint16 }

func (m *Resize) fields(b *body) { b.u16(&m.Rows); b.u16(&m.Columns) }

// EncodeNote returns the payload of a NOTE frame.
func EncodeNote(kind NoteKind, note Message) []byte { return AppendBody([]byte{byte(kind)}, note) }
