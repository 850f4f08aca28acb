package dns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

const recursionWanted = 0x0100

// query writes a question as clients do.
func query(name string, kind uint16, extra ...byte) []byte {
	message := []byte{0x12, 0x34, recursionWanted >> 8, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	if name != "" {
		message = append(message, wireName(name)...)
	} else {
		message = append(message, 0)
	}
	message = binary.BigEndian.AppendUint16(message, kind)
	message = binary.BigEndian.AppendUint16(message, classIN)
	return append(message, extra...)
}

func code(message []byte) int { return int(message[3] & 15) }

// record returns the data of the one record of an answer, nil if it has none.
func record(t *testing.T, question, message []byte) []byte {
	t.Helper()
	if message[7] == 0 {
		return nil
	}
	rest := message[len(question):]
	if rest[0] != 0xc0 || rest[1] != headerBytes {
		t.Fatalf("the record has another name: %x", rest)
	}
	if length := int(binary.BigEndian.Uint16(rest[10:])); length <= len(rest)-12 {
		return rest[12 : 12+length]
	}
	t.Fatalf("the record is cut short: %x", rest)
	return nil
}

func newResolver() *Resolver { return &Resolver{Names: NewTable()} }

func TestANameKeepsItsAddress(t *testing.T) {
	resolver := newResolver()
	question := query("example.com", typeA)
	first := record(t, question, resolver.Answer(question))
	if len(first) != 4 || first[0] != 198 || first[1]&^1 != 18 {
		t.Fatalf("answered %v", first)
	}
	for _, same := range []string{"example.com", "EXAMPLE.com"} {
		question := query(same, typeA)
		if again := record(t, question, resolver.Answer(question)); !bytes.Equal(again, first) {
			t.Errorf("%s is at %v, then %v", same, first, again)
		}
	}
	other := query("example.org", typeA)
	if bytes.Equal(record(t, other, resolver.Answer(other)), first) {
		t.Error("two names share an address")
	}
}

func TestTheQuestionIsEchoedAsItWas(t *testing.T) {
	question := query("eXaMpLe.CoM", typeA)
	message := newResolver().Answer(question)
	if !bytes.Equal(message[headerBytes:len(question)], question[headerBytes:]) || message[0] != 0x12 || message[1] != 0x34 {
		t.Errorf("answered %x", message)
	}
}

func TestWhatHasNoAddressHasOtherAnswers(t *testing.T) {
	resolver := newResolver()
	for _, each := range []struct {
		name string
		kind uint16
		code int
		data []byte
	}{
		{"example.com", typeAAAA, codeOK, nil},
		{"example.com", 15, codeOK, nil}, // MX
		{"example.com", 16, codeOK, nil}, // TXT
		{"example.com", 33, codeOK, nil}, // SRV
		{"example.com", 65, codeOK, nil}, // HTTPS
		{"example.com", typeANY, codeNotImplemented, nil},
		{"", typeA, codeNoName, nil},
		{"", 2, codeNoName, nil},
		{"a b.example", typeA, codeNoName, nil},
		{"a\x00b.example", typeA, codeNoName, nil},
		{"b\xc3\xbccher.example", typeA, codeNoName, nil},
		{"127.0.0.1", typeA, codeNoName, nil},
		{"2130706433", typeA, codeNoName, nil},
		{"0x7f.1", typeA, codeNoName, nil},
		{"example.0x7f", typeA, codeNoName, nil},
		{"localhost", typeA, codeOK, []byte{127, 0, 0, 1}},
		{"localhost", typeAAAA, codeOK, []byte{15: 1}},
		{"localhost", 16, codeOK, nil},
		{"deep.er.localhost", typeA, codeOK, []byte{127, 0, 0, 1}},
		{"1.0.0.127.in-addr.arpa", typePTR, codeOK, wireName("localhost")},
		{"4.3.2.1.in-addr.arpa", typePTR, codeNoName, nil},
		{"1.0.18.198.in-addr.arpa", typePTR, codeNoName, nil},
		{"256.0.18.198.in-addr.arpa", typePTR, codeNoName, nil},
		{"0.18.198.in-addr.arpa", typePTR, codeNoName, nil},
		{"example.com", typePTR, codeNoName, nil},
	} {
		question := query(each.name, each.kind)
		message := resolver.Answer(question)
		if code(message) != each.code || !bytes.Equal(record(t, question, message), each.data) {
			t.Errorf("%q, %d: answered %x", each.name, each.kind, message)
		}
	}
	if len(resolver.Names.byName) != 0 {
		t.Errorf("%d names were remembered", len(resolver.Names.byName))
	}
}

func TestAnAddressLeadsBackToItsName(t *testing.T) {
	resolver := newResolver()
	address, _ := resolver.Names.Assign("example.com")
	question := query(fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", byte(address), byte(address>>8), byte(address>>16), byte(address>>24)), typePTR)
	if data := record(t, question, resolver.Answer(question)); !bytes.Equal(data, wireName("example.com")) {
		t.Errorf("answered %x", data)
	}
}

func TestTheLongestNameFitsADatagram(t *testing.T) {
	resolver := newResolver()
	label := strings.Repeat("a", 63)
	longest := strings.Join([]string{label, label, label, label[:61]}, ".")
	question := query(longest, typeA, 0, 0, typeOPT, 4, 0, 0, 0, 0, 0, 0, 0)
	message := resolver.Answer(question)
	if len(longest) != nameMost || code(message) != codeOK || message[7] != 1 || len(message) > 512 {
		t.Fatalf("%d letters: answered %x", len(longest), message)
	}
	address, _ := resolver.Names.Assign(longest)
	reverse := query(fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", byte(address), byte(address>>8), byte(address>>16), byte(address>>24)), typePTR)
	if message := resolver.Answer(reverse); code(message) != codeOK || len(message) > 512 {
		t.Errorf("answered %x", message)
	}
	for _, tooLong := range []string{longest + "a", longest + ".b"} {
		if message := resolver.Answer(query(tooLong, typeA)); code(message) != codeFormat {
			t.Errorf("%d letters: answered %x", len(tooLong), message)
		}
	}
}

func TestMalformedQueriesAreRefusedOrIgnored(t *testing.T) {
	whole := query("example.com", typeA)
	change := func(at int, value byte) []byte {
		changed := append([]byte{}, whole...)
		changed[at] = value
		return changed
	}
	for _, each := range []struct {
		name  string
		query []byte
		code  int // -1: no answer
	}{
		{"nothing", nil, -1},
		{"a header cut short", whole[:11], -1},
		{"an answer", change(2, 0x81), -1},
		{"another opcode", change(2, 0x29), codeNotImplemented},
		{"no question", change(5, 0), codeFormat},
		{"two questions", change(5, 2), codeFormat},
		{"a header alone", whole[:12], codeFormat},
		{"a name cut short", whole[:18], codeFormat},
		{"no class", whole[:len(whole)-2], codeFormat},
		{"a pointer to itself", append(append([]byte{}, whole[:12]...), 0xc0, 12, 0, 1, 0, 1), codeFormat},
		{"a pointer into the header", append(append([]byte{}, whole[:12]...), 0xc0, 0, 0, 1, 0, 1), codeFormat},
		{"a label of 64 letters", change(12, 64), codeFormat},
		{"a label of a kind that was never defined", change(12, 0x80), codeFormat},
		{"another class", change(len(whole)-1, 3), codeNotImplemented},
	} {
		message := newResolver().Answer(each.query)
		if each.code < 0 && message != nil || each.code >= 0 && (message == nil || code(message) != each.code) {
			t.Errorf("%s: answered %x", each.name, message)
		}
	}
}

func TestExtensionsAreToleratedAndAnswered(t *testing.T) {
	cookie := []byte{0, 0, typeOPT, 16, 0, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}
	message := newResolver().Answer(query("example.com", typeA, cookie...))
	if code(message) != codeOK || message[11] != 1 || !bytes.HasSuffix(message, []byte{0, 0, typeOPT, 4, 208, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("answered %x", message)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(query("example.com", typeA))
	f.Add(query("1.0.18.198.in-addr.arpa", typePTR, 0, 0, typeOPT, 4, 0, 0, 0, 0, 0, 0, 0))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	resolver := newResolver()
	f.Fuzz(func(t *testing.T, raw []byte) {
		message := resolver.Answer(raw)
		if message == nil {
			return
		}
		if len(message) > 512 || message[0] != raw[0] || message[1] != raw[1] || message[2]&0x80 == 0 {
			t.Fatalf("%x: answered %x", raw, message)
		}
		for name := range resolver.Names.byName {
			if name == "" || len(name) > nameMost || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
				t.Fatalf("remembered %q", name)
			}
		}
		resolver.Names = NewTable()
	})
}
