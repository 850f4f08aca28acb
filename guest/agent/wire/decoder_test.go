package wire

import (
	"bytes"
	"math/rand"
	"testing"
)

// feed gives a decoder bytes in reads of a port's size and collects what it returns.
func feed(decoder *Decoder, raw []byte, each func(Frame)) {
	for len(raw) > 0 {
		room := decoder.Room()
		count := copy(room[:min(4096, len(room))], raw)
		decoder.Filled(count)
		raw = raw[count:]
		for frame, ok := decoder.Next(); ok; frame, ok = decoder.Next() {
			each(frame)
		}
	}
}

func syncOf(nonce byte) []byte {
	meeting := &Meeting{Generation: Generation}
	for i := range meeting.Nonce {
		meeting.Nonce[i] = nonce
	}
	return AppendFrame(nil, Frame{Kind: Sync, Payload: Encode(meeting)})
}

// A frame that lacks some bytes, and then a host that says SYNC once and floods later: the input of a
// command must never hold what that host said to the agent.
func TestTheSyncsOfTheNextHostNeverBecomeInput(t *testing.T) {
	source := rand.New(rand.NewSource(1))
	for range [2000]int{} {
		whole := AppendFrame(nil, Frame{Kind: Data, Stream: 7, Payload: make([]byte, 1+source.Intn(PayloadMax))})
		missing := 1 + source.Intn(len(whole)-HeaderBytes)
		if missing%2 == 0 && missing > 48 {
			missing -= missing % 48 // the hard case: SYNCs fill the gap exactly
		}
		decoder := NewDecoder(FromHost)
		syncs := 0
		judge := func(frame Frame) {
			if frame.Kind == Sync {
				syncs++
			} else if bytes.Contains(frame.Payload, syncStart) || frame.Kind == Data {
				t.Fatalf("%d missing: a frame of %d bytes was completed by SYNCs", missing, len(frame.Payload))
			}
		}
		feed(decoder, whole[:len(whole)-missing], judge)
		nonce := byte(source.Intn(2)) * marker // the marker itself, every other time
		feed(decoder, syncOf(nonce), judge)
		feed(decoder, bytes.Repeat(syncOf(nonce), 2048), judge)
		if syncs == 0 {
			t.Fatalf("%d missing: no SYNC was found", missing)
		}
	}
}

func TestAfterAGoneHostTheFirstSyncIsHeardAtOnce(t *testing.T) {
	whole := AppendFrame(nil, Frame{Kind: Data, Stream: 7, Payload: make([]byte, PayloadMax)})
	decoder := NewDecoder(FromHost)
	feed(decoder, whole[:30000], func(Frame) { t.Fatal("a cut frame was returned") })
	decoder.Doubt()
	kinds := []Kind{}
	feed(decoder, syncOf(9), func(frame Frame) { kinds = append(kinds, frame.Kind) })
	if len(kinds) != 1 || kinds[0] != Sync {
		t.Errorf("got %v", kinds)
	}
}

func TestALateNoticeDropsNothingOfTheNextHost(t *testing.T) {
	open := AppendFrame(nil, Frame{Kind: Open, Stream: 1, Payload: []byte{3}})
	decoder := NewDecoder(FromHost)
	kinds := []Kind{}
	collect := func(frame Frame) { kinds = append(kinds, frame.Kind) }
	feed(decoder, append(syncOf(9), open[:5]...), collect)
	decoder.Doubt()
	feed(decoder, open[5:], collect)
	if len(kinds) != 2 || kinds[1] != Open {
		t.Errorf("got %v", kinds)
	}
}

func TestDataThatHoldsASyncIsDataWhenNobodyLeft(t *testing.T) {
	inner := bytes.Repeat(syncOf(5), 3)
	decoder := NewDecoder(FromHost)
	got := []byte{}
	raw := AppendFrame(nil, Frame{Kind: Data, Stream: 7, Payload: inner})
	raw = AppendFrame(raw, Frame{Kind: End, Stream: 7})
	feed(decoder, raw, func(frame Frame) { got = append(got, frame.Payload...) })
	if !bytes.Equal(got, inner) {
		t.Error("a user's bytes were taken for a host's")
	}
}
