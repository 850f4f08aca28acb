package dns

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// secondsToLive is short because a name can lose its address to others.
const secondsToLive = 30

// Resolver answers queries out of a table.
type Resolver struct{ Names *Table }

// Answer returns what to send back, or nil for what deserves no answer. The answer to the longest
// question fits 512 bytes.
func (r *Resolver) Answer(query []byte) []byte {
	asked, code, ok := parse(query)
	if !ok {
		return nil
	}
	if code != codeOK {
		return answer(asked, code, 0, nil)
	}
	if asked.kind == typeANY || asked.class != classIN && asked.class != classANY {
		return answer(asked, codeNotImplemented, 0, nil)
	}
	code, data := r.lookUp(asked)
	return answer(asked, code, asked.kind, data)
}

func (r *Resolver) lookUp(asked question) (code int, data []byte) {
	switch {
	case isLocalhost(asked.name):
		return codeOK, localhost(asked.kind)
	case asked.kind == typePTR:
		return r.reverse(asked.name)
	case !asked.isPlain || isNumeric(asked.name):
		return codeNoName, nil
	case asked.kind != typeA:
		return codeOK, nil // the name is fine, there is just no such record of it
	}
	address, ok := r.Names.Assign(asked.name)
	if !ok {
		return codeServer, nil
	}
	return codeOK, binary.BigEndian.AppendUint32(nil, uint32(address))
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func localhost(kind uint16) []byte {
	switch kind {
	case typeA:
		return []byte{127, 0, 0, 1}
	case typeAAAA:
		return []byte{15: 1}
	}
	return nil
}

// isNumeric tells names that end like an address. No host has one, and whoever resolves it in earnest
// could take it for the address.
func isNumeric(name string) bool {
	last, digits := name[strings.LastIndexByte(name, '.')+1:], "0123456789"
	if rest, isHex := strings.CutPrefix(last, "0x"); isHex {
		last, digits = rest, digits+"abcdef"
	}
	return strings.Trim(last, digits) == ""
}

func (r *Resolver) reverse(name string) (code int, data []byte) {
	address, ok := addressOfArpa(name)
	if !ok {
		return codeNoName, nil
	}
	if address>>24 == 127 {
		return codeOK, wireName("localhost")
	}
	known, ok := r.Names.NameOf(address)
	if !ok {
		return codeNoName, nil
	}
	return codeOK, wireName(known)
}

// addressOfArpa reads `4.3.2.1.in-addr.arpa` as 1.2.3.4.
func addressOfArpa(name string) (address Address, ok bool) {
	numbers, ok := strings.CutSuffix(name, ".in-addr.arpa")
	parts := strings.Split(numbers, ".")
	if !ok || len(parts) != 4 {
		return 0, false
	}
	for index := 3; index >= 0; index-- {
		part, err := strconv.ParseUint(parts[index], 10, 8)
		if err != nil {
			return 0, false
		}
		address = address<<8 | Address(part)
	}
	return address, true
}
