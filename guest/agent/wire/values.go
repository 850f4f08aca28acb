package wire

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Message is a body of the contract. Its fields method names the fields once, in order, and serves
// both directions.
type Message interface {
	fields(*body)
}

// Encode returns the bytes of a message.
func Encode(message Message) []byte { return AppendBody(nil, message) }

// AppendBody adds the bytes of a message to buffer.
func AppendBody(buffer []byte, message Message) []byte {
	b := body{writing: true, bytes: buffer}
	message.fields(&b)
	return b.bytes
}

// Decode fills message from a payload and refuses a byte too many or too few.
func Decode(payload []byte, message Message) error {
	b := body{bytes: payload}
	message.fields(&b)
	if b.failed == nil && len(b.bytes) > 0 {
		return errors.New("trailing byte")
	}
	return b.failed
}

// body is a cursor: it appends to bytes when writing and takes from them when reading.
type body struct {
	writing bool
	bytes   []byte
	failed  error
}

func (b *body) fail(reason string) {
	if b.failed == nil {
		b.failed = errors.New(reason)
	}
	b.bytes = nil
}

// take returns the next count bytes, or nil when so many are not there.
func (b *body) take(count uint32) []byte {
	if b.failed != nil || uint64(count) > uint64(len(b.bytes)) {
		b.fail("too short")
		return nil
	}
	taken := b.bytes[:count:count]
	b.bytes = b.bytes[count:]
	return taken
}

func (b *body) u8(value *uint8) {
	if b.writing {
		b.bytes = append(b.bytes, *value)
	} else if raw := b.take(1); raw != nil {
		*value = raw[0]
	}
}

// upTo is a u8 that only knows the values 0 to most.
func (b *body) upTo(value *uint8, most uint8) {
	b.u8(value)
	if *value > most {
		b.fail("unknown value")
	}
}

func (b *body) u16(value *uint16) {
	if b.writing {
		b.bytes = binary.LittleEndian.AppendUint16(b.bytes, *value)
	} else if raw := b.take(2); raw != nil {
		*value = binary.LittleEndian.Uint16(raw)
	}
}

func (b *body) u32(value *uint32) {
	if b.writing {
		b.bytes = binary.LittleEndian.AppendUint32(b.bytes, *value)
	} else if raw := b.take(4); raw != nil {
		*value = binary.LittleEndian.Uint32(raw)
	}
}

func (b *body) u64(value *uint64) {
	if b.writing {
		b.bytes = binary.LittleEndian.AppendUint64(b.bytes, *value)
	} else if raw := b.take(8); raw != nil {
		*value = binary.LittleEndian.Uint64(raw)
	}
}

// raw is a string of any bytes. Go strings hold them as they are, and they are safe to keep.
func (b *body) raw(value *string) {
	length := uint32(len(*value))
	b.u32(&length)
	if b.writing {
		b.bytes = append(b.bytes, *value...)
	} else {
		*value = string(b.take(length))
	}
}

func (b *body) text(value *string) {
	b.raw(value)
	if !b.writing && !utf8.ValidString(*value) {
		b.fail("not UTF-8")
	}
}

// exactly is a run of bytes whose length both sides know.
func (b *body) exactly(value []byte) {
	if b.writing {
		b.bytes = append(b.bytes, value...)
	} else {
		copy(value, b.take(uint32(len(value))))
	}
}

func (b *body) magic() {
	var found [magicBytes]byte
	copy(found[:], Magic)
	b.exactly(found[:])
	if string(found[:]) != string(Magic) {
		b.fail("magic")
	}
}

// listOf reads or writes a list whose items take at least itemLeast bytes each, which is checked
// before anything is allocated.
func listOf[T any](b *body, items *[]T, itemLeast int, field func(*body, *T)) {
	count := uint32(len(*items))
	b.u32(&count)
	if !b.writing {
		if count > ListMax {
			b.fail("list too long")
		} else if int(count)*itemLeast > len(b.bytes) {
			b.fail("too short")
		}
		if b.failed != nil {
			return
		}
		*items = make([]T, count)
	}
	for i := range *items {
		field(b, &(*items)[i])
	}
}
