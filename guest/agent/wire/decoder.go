package wire

import "bytes"

// Decoder cuts a byte stream into frames. After a malformed header it skips to the next SYNC,
// so a host that died in the middle of a frame cannot confuse the one that follows it.
type Decoder struct {
	buffer     []byte
	start, end int
	skipping   bool
	isDoubtful bool
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

// Doubt tells that a host may have gone in the middle of a frame. Until that frame is whole, a SYNC
// inside it ends it: the next host always begins with one. The frame is not dropped at once, because
// the notice can come late and the bytes may already be the next host's.
func (d *Decoder) Doubt() { d.isDoubtful = true }

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
			d.lose()
			continue
		}
		size := HeaderBytes + header.Length
		if d.isDoubtful && header.Kind != Sync && bytes.Contains(pending[:min(size, len(pending))], syncStart) {
			d.lose()
			continue
		}
		if len(pending) < size {
			return Frame{}, false
		}
		payload := pending[HeaderBytes:size]
		if header.Kind == Data && isUndecided(payload, pending[size:]) {
			return Frame{}, false
		}
		if checkMagic(header, payload) != nil || wasCut(payload, pending[size:]) {
			d.lose()
			continue
		}
		d.isDoubtful = false
		d.start += size
		return Frame{header.Kind, header.Channel, header.Stream, payload}, true
	}
}

// lose gives up the frame at hand. A SYNC may begin inside it, so only its first byte is passed over.
func (d *Decoder) lose() {
	d.start++
	d.skipping, d.isDoubtful = true, false
}

const wholeSync = HeaderBytes + syncBytes

// wasCut finds a frame of a dead host that was completed by the SYNCs of the next: what follows is no
// header, or it begins the very SYNC with which the payload ends, whose nonce no user can know.
func wasCut(payload, following []byte) bool {
	if len(following) == 0 {
		return false
	}
	if !mayBeHeader(following) {
		return true
	}
	if len(payload) < wholeSync {
		return false
	}
	last := payload[len(payload)-wholeSync:]
	return bytes.HasPrefix(last, syncStart) && bytes.HasPrefix(last, following[:min(wholeSync, len(following))])
}

// mayBeHeader judges as much of a header as there is; a nonce may well begin with the marker.
func mayBeHeader(raw []byte) bool {
	if len(raw) >= HeaderBytes {
		_, err := ParseHeader(raw)
		return err == nil
	}
	return raw[0] == marker && (len(raw) < 2 || isKind(Kind(raw[1]))) && (len(raw) < 4 || raw[3] == 0)
}

// isUndecided tells that a payload ends in what may be the next host's SYNC and too little follows to
// know. Such a frame waits for the next byte; a user's own bytes that look like this only come later.
func isUndecided(payload, following []byte) bool {
	if len(following) > 1 {
		return false
	}
	tail := payload[max(0, len(payload)-wholeSync-len(syncStart)):]
	return bytes.Contains(tail, syncStart)
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
