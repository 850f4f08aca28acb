package channel

import "crucible.dev/agent/wire"

const ringLeast = 4096

// Ring keeps the bytes between two absolute offsets of a stream, at most one window of them. It
// grows as it is used, so that a stream of few bytes costs little. It does not lock.
type Ring struct {
	buffer []byte
	most   int    // bytes held at most since it was last empty
	Head   uint64 // offset of the oldest byte kept
	Tail   uint64 // offset after the newest
}

// Free returns contiguous space for up to count new bytes; tell Commit how many were put there.
func (r *Ring) Free(count int) []byte {
	if most := wire.WindowBytes - r.held(); count > most {
		count = most
	}
	if r.held()+count > len(r.buffer) {
		r.grow(r.held() + count)
	}
	if count == 0 {
		return nil
	}
	at := int(r.Tail % uint64(len(r.buffer)))
	if count > len(r.buffer)-at {
		count = len(r.buffer) - at
	}
	return r.buffer[at : at+count]
}

func (r *Ring) Commit(count int) {
	r.Tail += uint64(count)
	if held := r.held(); held > r.most {
		r.most = held
	}
}

// Append copies all of data, which must fit the window.
func (r *Ring) Append(data []byte) {
	for len(data) > 0 {
		count := copy(r.Free(len(data)), data)
		r.Commit(count)
		data = data[count:]
	}
}

// From returns contiguous bytes that start at an offset between Head and Tail.
func (r *Ring) From(offset uint64) []byte {
	if offset == r.Tail {
		return nil
	}
	at := int(offset % uint64(len(r.buffer)))
	end := at + int(r.Tail-offset)
	if end > len(r.buffer) {
		end = len(r.buffer)
	}
	return r.buffer[at:end]
}

// Release forgets what lies below offset.
func (r *Ring) Release(offset uint64) {
	if offset > r.Tail {
		offset = r.Tail
	}
	if offset > r.Head {
		r.Head = offset
	}
	if r.Head != r.Tail {
		return
	}
	// A stream that has become idle holds no window; one in full flow is not made to ask for
	// memory again with every frame.
	if len(r.buffer) > ringLeast && r.most < len(r.buffer)/4 {
		r.buffer = nil
	}
	r.most = 0
}

func (r *Ring) held() int { return int(r.Tail - r.Head) }

func (r *Ring) grow(needed int) {
	size := ringLeast
	for size < needed {
		size *= 2
	}
	larger := make([]byte, size)
	for offset := r.Head; offset < r.Tail; {
		chunk := r.From(offset)
		at := int(offset % uint64(size))
		count := copy(larger[at:], chunk)
		offset += uint64(count)
	}
	r.buffer = larger
}
