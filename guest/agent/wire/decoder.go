package wire

import "bytes"

// Decoder cuts a byte stream into frames. After a malformed header it skips to the next SYNC,
// so a host that died in the middle of a frame cannot confuse the one that follows it.
type Decoder struct {
	buffer     []byte
	start, end int
	skipping   bool
	accept     func(Kind) bool
}

// roomLeast is what one read of the port can bring; asking for less would cost more reads.
const roomLeast = 4096

// syncStart are the 28 bytes that begin every SYNC.
var syncStart = func() []byte {
	start := make([]byte, HeaderBytes, HeaderBytes+magicBytes)
	PutHeader(start, Sync, 0, 0, syncBytes)
	return append(start, Magic...)
}()

// NewDecoder treats frames of a kind that accept refuses as malformed.
func NewDecoder(accept func(Kind) bool) *Decoder {
	return &Decoder{buffer: make([]byte, HeaderBytes+PayloadMax+4*roomLeast), accept: accept}
}

// FromHost tells the kinds that only a host may send.
func FromHost(kind Kind) bool {
	return kind != Hello && kind != Result && kind != Fail
}

// Room is where the next bytes go; tell Filled how many came.
func (d *Decoder) Room() []byte {
	if len(d.buffer)-d.end < roomLeast {
		d.end = copy(d.buffer, d.buffer[d.start:d.end])
		d.start = 0
	}
	return d.buffer[d.end:]
}

func (d *Decoder) Filled(count int) { d.end += count }

// Reset forgets a frame that was cut short.
func (d *Decoder) Reset() { d.start, d.end, d.skipping = 0, 0, false }

// Next returns the next whole frame, whose payload is good until Room is called again.
func (d *Decoder) Next() (Frame, bool) {
	for {
		if d.skipping && !d.skip() {
			return Frame{}, false
		}
		pending := d.buffer[d.start:d.end]
		if len(pending) < HeaderBytes {
			return Frame{}, false
		}
		header, err := ParseHeader(pending)
		if err != nil || !d.accept(header.Kind) {
			d.skipping = true
			continue
		}
		if len(pending) < HeaderBytes+header.Length {
			return Frame{}, false
		}
		payload := pending[HeaderBytes : HeaderBytes+header.Length]
		if checkMagic(header, payload) != nil {
			d.start++ // a SYNC may begin inside what only looked like one
			d.skipping = true
			continue
		}
		d.start += HeaderBytes + header.Length
		return Frame{header.Kind, header.Channel, header.Stream, payload}, true
	}
}

// skip drops bytes up to the next SYNC; it keeps a tail that may be the beginning of one.
func (d *Decoder) skip() bool {
	pending := d.buffer[d.start:d.end]
	if at := bytes.Index(pending, syncStart); at >= 0 {
		d.start += at
		d.skipping = false
		return true
	}
	if surplus := len(pending) - (len(syncStart) - 1); surplus > 0 {
		d.start += surplus
	}
	return false
}
