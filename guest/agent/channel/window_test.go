package channel

import (
	"bytes"
	"io"
	"math/rand"
	"testing"

	"crucible.dev/agent/wire"
)

func TestARingGivesBackWhatItTook(t *testing.T) {
	source := rand.New(rand.NewSource(1))
	ring, want := &Ring{}, []byte{}
	for range [2000]int{} {
		data := make([]byte, source.Intn(9000))
		source.Read(data)
		if room := wire.WindowBytes - len(want); len(data) > room {
			data = data[:room]
		}
		ring.Append(data)
		want = append(want, data...)
		gone := source.Intn(len(want) + 1)
		ring.Release(ring.Head + uint64(gone))
		want = want[gone:]
		got := []byte{}
		for offset := ring.Head; offset < ring.Tail; offset = ring.Head + uint64(len(got)) {
			got = append(got, ring.From(offset)...)
		}
		if !bytes.Equal(got, want) {
			t.Fatal("the ring lost its order")
		}
	}
}

func TestAnIdleRingHoldsNoWindow(t *testing.T) {
	ring := &Ring{}
	ring.Append(make([]byte, wire.WindowBytes))
	ring.Release(ring.Tail)
	ring.Append(make([]byte, 10)) // the flow has dried up
	ring.Release(ring.Tail)
	if ring.buffer != nil {
		t.Error("an empty ring kept its buffer")
	}
}

func TestInputBeyondTheWindowIsRefused(t *testing.T) {
	inbox := NewInbox(func(uint64) {})
	if err := inbox.Put(make([]byte, wire.WindowBytes)); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Put([]byte{0}); err == nil {
		t.Error("a byte too many was taken")
	}
}

func TestInputAfterItsEndIsRefused(t *testing.T) {
	inbox := NewInbox(func(uint64) {})
	inbox.End()
	if err := inbox.Put([]byte{0}); err == nil {
		t.Error("input after END was taken")
	}
}

func TestAReaderGrantsAQuarterAtATime(t *testing.T) {
	grants := []uint64{}
	inbox := NewInbox(func(limit uint64) { grants = append(grants, limit) })
	inbox.Put(make([]byte, wire.WindowBytes))
	buffer := make([]byte, wire.WindowBytes/2-1)
	io.ReadFull(inbox, buffer)
	if len(grants) != 0 {
		t.Fatalf("granted after %d bytes", len(buffer))
	}
	io.ReadFull(inbox, buffer[:1])
	if len(grants) != 1 || grants[0] != wire.WindowBytes+wire.WindowBytes/2 {
		t.Errorf("granted %v", grants)
	}
}

func TestAnEndedInboxReadsToItsEnd(t *testing.T) {
	inbox := NewInbox(func(uint64) {})
	inbox.Put([]byte("abc"))
	inbox.End()
	got, err := io.ReadAll(inbox)
	if err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsNotAcknowledgedCanBeSentAgain(t *testing.T) {
	replay := NewReplay()
	replay.Append([]byte("0123456789"))
	buffer := make([]byte, 64)
	replay.Take(buffer)
	start, ok := replay.Rewind(4)
	count := replay.Take(buffer)
	if !ok || start != 4 || string(buffer[:count]) != "456789" {
		t.Errorf("from %d: %q", start, buffer[:count])
	}
}

func TestWhatIsAcknowledgedIsForgotten(t *testing.T) {
	replay := NewReplay()
	replay.Append(make([]byte, 1000))
	replay.Allow(wire.WindowBytes + 600)
	if start, ok := replay.Rewind(0); !ok || start != 600 {
		t.Errorf("starts at %d", start)
	}
}

func TestAFullWindowHasNoRoomUntilItIsAcknowledged(t *testing.T) {
	replay := NewReplay()
	replay.Append(make([]byte, wire.WindowBytes))
	if replay.Room() != 0 {
		t.Fatalf("room for %d", replay.Room())
	}
	replay.Allow(wire.WindowBytes + 10)
	if replay.Room() != 10 {
		t.Errorf("room for %d", replay.Room())
	}
}

func TestAttachingGrantsAsMuchAsTheHostWillExpect(t *testing.T) {
	replay := NewReplay()
	replay.Append(make([]byte, wire.WindowBytes))
	replay.Rewind(wire.WindowBytes - 10) // else neither side would ever grant or send again
	if replay.Room() != wire.WindowBytes-10 {
		t.Errorf("room for %d", replay.Room())
	}
}

func TestAnAttachBeyondTheOutputIsRefused(t *testing.T) {
	if _, ok := NewReplay().Rewind(1); ok {
		t.Error("a host had bytes that were never written")
	}
}

func TestAWindowFarBeyondTheOutputDoesNotOverflow(t *testing.T) {
	replay := NewReplay()
	replay.Append([]byte("abc"))
	replay.Allow(1<<64 - 1)
	if replay.Room() != wire.WindowBytes {
		t.Errorf("room for %d", replay.Room())
	}
}

func TestTheEndIsSentOnceAndAgainAfterARewind(t *testing.T) {
	replay := NewReplay()
	replay.Append([]byte("x"))
	replay.Close()
	if replay.TakeEnd() {
		t.Fatal("END before the last byte")
	}
	replay.Take(make([]byte, 8))
	if !replay.TakeEnd() || replay.TakeEnd() {
		t.Fatal("END not exactly once")
	}
	replay.Rewind(1)
	if !replay.TakeEnd() {
		t.Error("no END for the second host")
	}
}

func TestANarrowInboxWidensOnceItIsLet(t *testing.T) {
	const narrow = 32 << 10
	grants, mayWiden := []uint64{}, false
	inbox := NewInbox(func(limit uint64) { grants = append(grants, limit) })
	inbox.Narrow(narrow, func() bool { return mayWiden })
	if err := inbox.Put(make([]byte, narrow+1)); err == nil {
		t.Error("a byte too many was taken")
	}
	pass := func() {
		inbox.Put(make([]byte, narrow/2))
		data, _ := inbox.Next()
		inbox.Took(len(data))
	}
	for range [6]int{} {
		pass()
	}
	if last := grants[len(grants)-1]; len(grants) != 6 || last != 3*narrow+narrow {
		t.Fatalf("granted %v", grants)
	}
	mayWiden = true
	pass()
	if last := grants[len(grants)-1]; last != 3*narrow+narrow/2+wire.WindowBytes {
		t.Errorf("granted %v", grants)
	}
}

func TestWhatIsNextStaysUntilItIsTaken(t *testing.T) {
	inbox := NewInbox(func(uint64) {})
	inbox.Put([]byte("abc"))
	data, _ := inbox.Next()
	inbox.Put(bytes.Repeat([]byte("d"), 100_000)) // the ring is moved meanwhile
	if string(data) != "abc" {
		t.Fatalf("%q", data)
	}
	inbox.Took(2)
	if data, _ := inbox.Next(); data[0] != 'c' || data[1] != 'd' {
		t.Errorf("%q", data[:2])
	}
}
