package dns

import "sync"

const (
	// namesMost bounds the memory that lookups can take.
	namesMost = 8192

	firstAddress = 198<<24 | 18<<16 | 1<<8 // the 256 before it are the machine's own
	lastAddress  = 198<<24 | 19<<16 | 0xffff
)

// Address is an IPv4 address in the order in which numbers are compared.
type Address uint32

// IsMadeUp tells whether an address can only have come from a table.
func (a Address) IsMadeUp() bool { return a >= firstAddress && a <= lastAddress }

// Table gives names addresses. The name that was not used for longest makes room for a new one, but
// its address is handed out again only when all others of the range were: a program that dials late finds
// nobody rather than somebody else.
type Table struct {
	mutex     sync.Mutex
	byName    map[string]*entry
	byAddress map[Address]*entry
	idle      entry // ring of the entries that nobody holds, least recently used first
	next      Address
}

type entry struct {
	name           string
	address        Address
	holders        int
	earlier, later *entry
}

func NewTable() *Table {
	table := &Table{byName: map[string]*entry{}, byAddress: map[Address]*entry{}, next: firstAddress}
	table.idle.earlier, table.idle.later = &table.idle, &table.idle
	return table
}

// Assign returns the address of a name, or false when every name is held by a connection.
func (t *Table) Assign(name string) (Address, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if known := t.byName[name]; known != nil {
		t.touch(known)
		return known.address, true
	}
	if len(t.byName) >= namesMost {
		oldest := t.idle.later
		if oldest == &t.idle {
			return 0, false
		}
		oldest.unlink()
		delete(t.byName, oldest.name)
		delete(t.byAddress, oldest.address)
	}
	fresh := &entry{name: name, address: t.unused()}
	t.byName[name], t.byAddress[fresh.address] = fresh, fresh
	t.link(fresh)
	return fresh.address, true
}

// NameOf returns the name of an address.
func (t *Table) NameOf(address Address) (string, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.byAddress[address]
	if known == nil {
		return "", false
	}
	return known.name, true
}

// Hold returns the name of an address and keeps the two together until release is called.
func (t *Table) Hold(address Address) (name string, release func(), ok bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.byAddress[address]
	if known == nil {
		return "", nil, false
	}
	if known.holders == 0 {
		known.unlink()
	}
	known.holders++
	return known.name, func() { t.release(known) }, true
}

func (t *Table) release(known *entry) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known.holders--
	if known.holders == 0 {
		t.link(known)
	}
}

// unused ends: there are many more addresses than names.
func (t *Table) unused() Address {
	for {
		address := t.next
		t.next++
		if t.next > lastAddress {
			t.next = firstAddress
		}
		if t.byAddress[address] == nil {
			return address
		}
	}
}

func (t *Table) touch(known *entry) {
	if known.holders == 0 {
		known.unlink()
		t.link(known)
	}
}

func (t *Table) link(known *entry) {
	known.earlier, known.later = t.idle.earlier, &t.idle
	known.earlier.later, t.idle.earlier = known, known
}

func (e *entry) unlink() {
	e.earlier.later, e.later.earlier = e.later, e.earlier
}
