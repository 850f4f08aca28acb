// Package dns answers every question about names with addresses that only this machine knows. It is
// pure: bytes in, bytes out, and nothing of a question ever leaves the machine.
package dns

import (
	"encoding/binary"
	"strings"
)

const (
	headerBytes = 12
	labelMost   = 63
	nameMost    = 253 // as text
	optBytes    = 11  // an OPT record without options
	payloadSize = 1232

	typeA    = 1
	typePTR  = 12
	typeAAAA = 28
	typeOPT  = 41
	typeANY  = 255

	classIN  = 1
	classANY = 255

	codeOK             = 0
	codeFormat         = 1
	codeServer         = 2
	codeNoName         = 3
	codeNotImplemented = 4

	flagAnswer    = 1 << 15
	flagRecursion = 1 << 8
	flagAvailable = 1 << 7
	opcodeMask    = 15 << 11
)

// question is what a query asks. Its raw bytes are echoed as they came: some clients vary the case of
// letters and want it back.
type question struct {
	id      uint16
	flags   uint16
	raw     []byte
	name    string // lower case, without the dot at the end; "" is the root
	isPlain bool   // the name could be a host's
	kind    uint16
	class   uint16
	hasEdns bool
}

// parse returns a code other than codeOK for what is answered with just that code, and ok false for
// what deserves no answer at all.
func parse(query []byte) (asked question, code int, ok bool) {
	if len(query) < headerBytes {
		return asked, 0, false
	}
	asked.id = binary.BigEndian.Uint16(query)
	asked.flags = binary.BigEndian.Uint16(query[2:])
	if asked.flags&flagAnswer != 0 {
		return asked, 0, false // an answer to an answer could go on for ever
	}
	if asked.flags&opcodeMask != 0 {
		return asked, codeNotImplemented, true
	}
	if binary.BigEndian.Uint16(query[4:]) != 1 {
		return asked, codeFormat, true
	}
	end, name, isPlain, ok := parseName(query[headerBytes:])
	if !ok || len(query) < headerBytes+end+4 {
		return asked, codeFormat, true
	}
	asked.name, asked.isPlain = name, isPlain
	asked.kind = binary.BigEndian.Uint16(query[headerBytes+end:])
	asked.class = binary.BigEndian.Uint16(query[headerBytes+end+2:])
	asked.raw = query[headerBytes : headerBytes+end+4]
	asked.hasEdns = hasEdns(query[headerBytes+end+4:])
	return asked, codeOK, true
}

// parseName reads labels up to the root. A pointer is refused: before the first name of a message
// there is nothing that it could point to.
func parseName(raw []byte) (end int, name string, isPlain, ok bool) {
	var text strings.Builder
	isPlain = true
	for {
		if end >= len(raw) {
			return 0, "", false, false
		}
		length := int(raw[end])
		end++
		if length == 0 {
			return end, text.String(), isPlain && text.Len() > 0, true
		}
		if length > labelMost || end+length > len(raw) || text.Len()+length+1 > nameMost+1 {
			return 0, "", false, false
		}
		if text.Len() > 0 {
			text.WriteByte('.')
		}
		for _, letter := range raw[end : end+length] {
			if letter >= 'A' && letter <= 'Z' {
				letter += 'a' - 'A'
			}
			isPlain = isPlain && isOfHost(letter)
			text.WriteByte(letter)
		}
		if text.Len() > nameMost {
			return 0, "", false, false
		}
		end += length
	}
}

// isOfHost also allows the underscore, which names of services begin with.
func isOfHost(letter byte) bool {
	return letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9' || letter == '-' || letter == '_'
}

// hasEdns looks for an OPT record right after the question, where every client puts it.
func hasEdns(rest []byte) bool {
	return len(rest) >= optBytes && rest[0] == 0 && binary.BigEndian.Uint16(rest[1:]) == typeOPT
}

// answer writes the answer to a question: a code and at most one record.
func answer(asked question, code int, kind uint16, data []byte) []byte {
	message := make([]byte, headerBytes, headerBytes+len(asked.raw)+12+len(data)+optBytes)
	binary.BigEndian.PutUint16(message, asked.id)
	kept := asked.flags & (opcodeMask | flagRecursion)
	binary.BigEndian.PutUint16(message[2:], flagAnswer|flagAvailable|kept|uint16(code))
	if asked.raw != nil {
		message[5] = 1
		message = append(message, asked.raw...)
	}
	if data != nil {
		message[7] = 1
		message = append(message, 0xc0, headerBytes) // the name of the question
		message = binary.BigEndian.AppendUint16(message, kind)
		message = binary.BigEndian.AppendUint16(message, classIN)
		message = binary.BigEndian.AppendUint32(message, secondsToLive)
		message = binary.BigEndian.AppendUint16(message, uint16(len(data)))
		message = append(message, data...)
	}
	if asked.hasEdns {
		message[11] = 1
		message = append(message, 0, 0, typeOPT, payloadSize>>8, payloadSize&0xff, 0, 0, 0, 0, 0, 0)
	}
	return message
}

// wireName writes a name that is known to be lawful.
func wireName(name string) []byte {
	raw := make([]byte, 0, len(name)+2)
	for _, label := range strings.Split(name, ".") {
		raw = append(raw, byte(len(label)))
		raw = append(raw, label...)
	}
	return append(raw, 0)
}
