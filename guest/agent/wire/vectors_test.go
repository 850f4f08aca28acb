package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

const vectors = "../../vectors/"

func load(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(vectors + name)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// everyKind lets the tests decode frames of both directions.
func everyKind(Kind) bool { return true }

// decodeAll feeds bytes and returns the frames, and whether the decoder lost its way.
func decodeAll(raw []byte) (frames []Frame, lost bool) {
	decoder := NewDecoder(everyKind)
	for len(raw) > 0 {
		count := copy(decoder.Room(), raw)
		decoder.Filled(count)
		raw = raw[count:]
		for frame, ok := decoder.Next(); ok; frame, ok = decoder.Next() {
			frame.Payload = append([]byte{}, frame.Payload...)
			frames = append(frames, frame)
		}
	}
	return frames, decoder.skipping
}

func TestFramesOfTheVectorsBothWays(t *testing.T) {
	var cases []struct {
		Name, Hex, Payload    string
		Kind, Channel, Stream uint32
	}
	load(t, "frames.json", &cases)
	for _, each := range cases {
		raw := unhex(t, each.Hex)
		want := Frame{Kind(each.Kind), Channel(each.Channel), each.Stream, unhex(t, each.Payload)}
		if got := AppendFrame(nil, want); !bytes.Equal(got, raw) {
			t.Errorf("%s: encoded to %x", each.Name, got)
		}
		frames, lost := decodeAll(raw)
		if lost || len(frames) != 1 || frames[0].Kind != want.Kind || frames[0].Channel != want.Channel ||
			frames[0].Stream != want.Stream || !bytes.Equal(frames[0].Payload, want.Payload) {
			t.Errorf("%s: decoded to %v", each.Name, frames)
		}
	}
}

func TestRejectedFramesAreRejected(t *testing.T) {
	var cases []struct{ Name, Hex, Reason string }
	load(t, "rejected.json", &cases)
	for _, each := range cases {
		if _, lost := decodeAll(unhex(t, each.Hex)); !lost {
			t.Errorf("%s was accepted", each.Name)
		}
	}
}

type messageCase struct {
	Name      string
	FrameKind Kind           `json:"frame_kind"`
	Verb      *Verb          `json:"verb"`
	Note      *NoteKind      `json:"note"`
	Fields    map[string]any `json:"fields"`
	Hex       string
}

var requests = map[Verb]func() Message{
	VerbPrepare: func() Message { return &Prepare{} }, VerbExec: func() Message { return &Exec{} },
	VerbList: func() Message { return &Empty{} }, VerbRead: func() Message { return &Read{} },
	VerbWrite: func() Message { return &Write{} }, VerbStat: func() Message { return &Stat{} },
	VerbListDir: func() Message { return &ListDir{} }, VerbRemove: func() Message { return &Remove{} },
	VerbRename: func() Message { return &Rename{} }, VerbMkdir: func() Message { return &Mkdir{} },
	VerbTarOut: func() Message { return &TarOut{} }, VerbTarIn: func() Message { return &TarIn{} },
	VerbDial: func() Message { return &Dial{} }, VerbTree: func() Message { return &Tree{} },
	VerbStats: func() Message { return &Empty{} }, VerbGrow: func() Message { return &Empty{} },
	VerbFreeze: func() Message { return &Empty{} }, VerbThaw: func() Message { return &Empty{} },
	VerbEndAll:   func() Message { return &EndAll{} },
	VerbShutdown: func() Message { return &Shutdown{} }, VerbSyncDisk: func() Message { return &Empty{} },
	VerbConfine: func() Message { return &Confine{} }, VerbListen: func() Message { return &Empty{} },
	VerbTake: func() Message { return &Take{} }, VerbRefuse: func() Message { return &Take{} },
	VerbLayerOut: func() Message { return &LayerOut{} }, VerbWatch: func() Message { return &Watch{} },
	VerbExecIn: func() Message { return &ExecIn{} },
}

var results = map[Verb]func() Message{
	VerbExecIn: func() Message { return &ExecResult{} },
	VerbExec:   func() Message { return &ExecResult{} }, VerbList: func() Message { return &ListResult{} },
	VerbRead: func() Message { return &SizeResult{} }, VerbWrite: func() Message { return &SizeResult{} },
	VerbStat: func() Message { return &StatResult{} }, VerbListDir: func() Message { return &CountResult{} },
	VerbTarOut: func() Message { return &CountResult{} }, VerbTarIn: func() Message { return &CountResult{} },
	VerbTree: func() Message { return &CountResult{} }, VerbStats: func() Message { return &StatsResult{} },
	VerbGrow: func() Message { return &GrowResult{} }, VerbLayerOut: func() Message { return &CountResult{} },
}

var notes = map[NoteKind]func() Message{
	NoteStarted: func() Message { return &Started{} }, NoteAttached: func() Message { return &Attached{} },
	NoteConnected: func() Message { return &Empty{} }, NoteSignal: func() Message { return &Signal{} },
	NoteResize: func() Message { return &Resize{} }, NoteListening: func() Message { return &Empty{} },
	NoteWatching: func() Message { return &Empty{} },
}

// recordList is the body of DATA of LISTDIR and TREE.
type recordList struct{ Entries []Entry }

func (m *recordList) fields(b *body) {
	if b.writing {
		for i := range m.Entries {
			b.bytes = AppendRecord(b.bytes, &m.Entries[i])
		}
		return
	}
	for len(b.bytes) > 0 && b.failed == nil {
		length := uint32(0)
		b.u32(&length)
		var entry Entry
		if err := Decode(b.take(length), &entry); err != nil {
			b.fail(err.Error())
		}
		m.Entries = append(m.Entries, entry)
	}
}

// askList is the body of DATA of LISTEN.
type askList struct{ Asks []Ask }

func (m *askList) fields(b *body) {
	if b.writing {
		for i := range m.Asks {
			b.bytes = AppendAsk(b.bytes, &m.Asks[i])
		}
		return
	}
	for len(b.bytes) > 0 && b.failed == nil {
		length := uint32(0)
		b.u32(&length)
		var ask Ask
		if err := Decode(b.take(length), &ask); err != nil {
			b.fail(err.Error())
		}
		m.Asks = append(m.Asks, ask)
	}
}

// changeList is the body of DATA of WATCH.
type changeList struct{ Changes []Change }

func (m *changeList) fields(b *body) {
	if b.writing {
		for i := range m.Changes {
			b.bytes = AppendChange(b.bytes, &m.Changes[i])
		}
		return
	}
	for len(b.bytes) > 0 && b.failed == nil {
		length := uint32(0)
		b.u32(&length)
		var change Change
		if err := Decode(b.take(length), &change); err != nil {
			b.fail(err.Error())
		}
		m.Changes = append(m.Changes, change)
	}
}

// body returns an empty message of the case's type and how many bytes of the payload name it.
func (c *messageCase) body() (Message, int) {
	var make func() Message
	prefix := 0
	switch c.FrameKind {
	case Sync:
		return &Meeting{}, 0
	case Hello:
		return &Greeting{}, 0
	case Open:
		make, prefix = requests[*c.Verb], 1
	case Data:
		if *c.Verb == VerbListen {
			return &askList{}, 0
		}
		if *c.Verb == VerbWatch {
			return &changeList{}, 0
		}
		return &recordList{}, 0
	case Window:
		return &Limit{}, 0
	case Note:
		make, prefix = notes[*c.Note], 1
	case Result:
		if make = results[*c.Verb]; make == nil {
			return &Empty{}, 0
		}
	case Fail:
		return &Failure{}, 0
	case Attach:
		return &Offsets{}, 0
	case Fetch:
		return &Place{}, 0
	}
	if make == nil {
		return nil, prefix
	}
	return make(), prefix
}

func (c *messageCase) prefix() []byte {
	switch c.FrameKind {
	case Open:
		return []byte{byte(*c.Verb)}
	case Note:
		return []byte{byte(*c.Note)}
	}
	return nil
}

func TestMessagesOfTheVectorsBothWays(t *testing.T) {
	var cases []messageCase
	load(t, "messages.json", &cases)
	for _, each := range cases {
		raw := unhex(t, each.Hex)
		want, prefix := each.body()
		fill(t, reflect.ValueOf(want).Elem(), each.Fields)
		if got := AppendBody(each.prefix(), want); !bytes.Equal(got, raw) {
			t.Errorf("%s: encoded to %x", each.Name, got)
		}
		got, _ := each.body()
		if err := Decode(raw[prefix:], got); err != nil {
			t.Errorf("%s: %v", each.Name, err)
		} else if again := AppendBody(each.prefix(), got); !bytes.Equal(again, raw) {
			t.Errorf("%s: decoded to %+v", each.Name, got)
		}
	}
}

func TestRejectedBodiesAreRejected(t *testing.T) {
	var cases []messageCase
	load(t, "rejected_bodies.json", &cases)
	for _, each := range cases {
		message, prefix := each.body()
		if message == nil {
			continue // an unknown verb or note: there is nothing to decode it as
		}
		if err := Decode(unhex(t, each.Hex)[prefix:], message); err == nil {
			t.Errorf("%s was accepted as %+v", each.Name, message)
		}
	}
}

// fill sets the fields of a struct from the vector's, which name them in snake case.
func fill(t *testing.T, target reflect.Value, fields map[string]any) {
	t.Helper()
	for name, value := range fields {
		field := target.FieldByName(camel(name))
		if !field.IsValid() {
			t.Fatalf("%s has no field %s", target.Type(), camel(name))
		}
		if text, ok := value.(string); ok && texts[name] {
			field.SetString(text)
		} else {
			set(t, field, value)
		}
	}
}

func set(t *testing.T, field reflect.Value, value any) {
	t.Helper()
	switch value := value.(type) {
	case json.Number:
		var number uint64
		if err := json.Unmarshal([]byte(value), &number); err != nil {
			t.Fatal(err)
		}
		field.SetUint(number)
	case string:
		setBytes(t, field, value)
	case map[string]any:
		fill(t, field, value)
	case []any:
		setList(t, field, value)
	}
}

// texts are the fields that the vectors write as they are; all other strings are hexadecimal.
var texts = map[string]bool{"agent": true, "user": true, "owner": true, "hostname": true,
	"machine_id": true, "boot_id": true, "code": true, "message": true, "image": true}

func setBytes(t *testing.T, field reflect.Value, value string) {
	t.Helper()
	if field.Kind() == reflect.Array {
		reflect.Copy(field, reflect.ValueOf(unhex(t, value)))
	} else {
		field.SetString(string(unhex(t, value)))
	}
}

// setList takes a list of items, or the values of a struct in the order of its fields.
func setList(t *testing.T, field reflect.Value, values []any) {
	t.Helper()
	if field.Kind() == reflect.Struct {
		for i, value := range values {
			set(t, field.Field(i), value)
		}
		return
	}
	field.Set(reflect.MakeSlice(field.Type(), len(values), len(values)))
	for i, value := range values {
		set(t, field.Index(i), value)
	}
}

func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts {
		parts[i] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}

func TestTheDecoderFindsItsWayBackAfterACut(t *testing.T) {
	sync := AppendFrame(nil, Frame{Kind: Sync, Payload: Encode(&Meeting{Generation: Generation})})
	whole := AppendFrame(nil, Frame{Kind: Data, Stream: 7, Payload: bytes.Repeat([]byte{0xC5}, PayloadMax)})
	for _, cut := range []int{1, 11, 12, 13, 4000, len(whole) - 1} {
		raw := append(append([]byte{}, whole[:cut]...), bytes.Repeat(sync, 2048)...)
		frames, lost := decodeAll(raw)
		last := len(frames) - 1
		if lost || last < 0 || frames[last].Kind != Sync {
			t.Errorf("cut at %d: %d frames, lost %v", cut, len(frames), lost)
		}
	}
}

func TestOneByteAtATimeIsEnough(t *testing.T) {
	raw := AppendFrame(nil, Frame{Kind: Open, Stream: 1, Payload: []byte{3}})
	decoder := NewDecoder(FromHost)
	for i, each := range raw {
		decoder.Room()[0] = each
		decoder.Filled(1)
		if _, ok := decoder.Next(); ok != (i == len(raw)-1) {
			t.Fatalf("after byte %d: %v", i, ok)
		}
	}
}

func TestAFrameOfTheOtherDirectionIsMalformed(t *testing.T) {
	decoder := NewDecoder(FromHost)
	raw := AppendFrame(nil, Frame{Kind: Result, Stream: 1})
	decoder.Filled(copy(decoder.Room(), raw))
	if _, ok := decoder.Next(); ok || !decoder.skipping {
		t.Error("a RESULT from the host was taken")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(AppendFrame(nil, Frame{Kind: Sync, Payload: Encode(&Meeting{Generation: 1})}))
	f.Add(AppendFrame(nil, Frame{Kind: Data, Stream: 1, Payload: []byte("x")}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frames, _ := decodeAll(raw)
		for _, frame := range frames {
			again, lost := decodeAll(AppendFrame(nil, frame))
			if lost || len(again) != 1 {
				t.Fatalf("a decoded frame does not survive: %+v", frame)
			}
		}
	})
}

func FuzzBodies(f *testing.F) {
	f.Add(byte(VerbExec), Encode(&Exec{Argv: []string{"sh"}}))
	f.Fuzz(func(t *testing.T, verb byte, raw []byte) {
		make, ok := requests[Verb(verb)]
		if !ok {
			return
		}
		message := make()
		if Decode(raw, message) == nil && !bytes.Equal(Encode(message), raw) {
			t.Fatalf("%T does not survive", message)
		}
	})
}

func TestAListIsMeasuredBeforeItIsAllocated(t *testing.T) {
	raw := binary.LittleEndian.AppendUint32(nil, ListMax)
	if allocated := testing.AllocsPerRun(10, func() { Decode(raw, &Exec{}) }); allocated > 4 {
		t.Errorf("%v allocations for a list that is not there", allocated)
	}
}
