package dns

import (
	"math/rand"
	"strconv"
	"testing"
)

func TestTheNameThatWasUnusedForLongestMakesRoom(t *testing.T) {
	table := NewTable()
	addresses := map[string]Address{}
	for i := 0; i < namesMost; i++ {
		name := strconv.Itoa(i) + ".example"
		addresses[name], _ = table.Assign(name)
	}
	table.Assign("0.example") // used again, so 1.example is the oldest now
	fresh, ok := table.Assign("fresh.example")
	if _, known := table.NameOf(addresses["1.example"]); !ok || known {
		t.Error("the oldest name was kept")
	}
	if name, _ := table.NameOf(addresses["0.example"]); name != "0.example" {
		t.Errorf("0.example became %q", name)
	}
	for name, address := range addresses {
		if address == fresh {
			t.Errorf("the address of %s was handed out again at once", name)
		}
	}
}

func TestAnAddressComesBackOnlyAfterAllOthers(t *testing.T) {
	table := NewTable()
	first, _ := table.Assign("first.example")
	for i := 0; i < lastAddress-firstAddress; i++ {
		if address, _ := table.Assign(strconv.Itoa(i)); address == first {
			t.Fatalf("it came back after %d others", i)
		}
	}
	if address, _ := table.Assign("last.example"); address != first {
		t.Errorf("%x was handed out instead", address)
	}
}

func TestANameThatIsHeldKeepsItsAddressWhateverComes(t *testing.T) {
	table := NewTable()
	address, _ := table.Assign("held.example")
	name, release, ok := table.Hold(address)
	if !ok || name != "held.example" {
		t.Fatal(name, ok)
	}
	_, releaseToo, _ := table.Hold(address)
	for i := 0; i < 2*(lastAddress-firstAddress); i++ {
		if other, ok := table.Assign(strconv.Itoa(i)); !ok || other == address {
			t.Fatalf("after %d names: %v", i, ok)
		}
	}
	release()
	if name, _ := table.NameOf(address); name != "held.example" {
		t.Errorf("it became %q", name)
	}
	releaseToo()
	for i := 0; i < namesMost; i++ {
		table.Assign("again" + strconv.Itoa(i))
	}
	if _, known := table.NameOf(address); known {
		t.Error("a name that nobody holds was kept for ever")
	}
}

func TestAFullTableOfHeldNamesTakesNoMore(t *testing.T) {
	table := NewTable()
	for i := 0; i < namesMost; i++ {
		address, _ := table.Assign(strconv.Itoa(i))
		table.Hold(address)
	}
	if _, ok := table.Assign("one.more"); ok {
		t.Error("a name was added")
	}
}

func TestAnAddressOfNobodyCannotBeHeld(t *testing.T) {
	if _, _, ok := NewTable().Hold(firstAddress + 5); ok {
		t.Error("it was held")
	}
}

// What is done in any order keeps names and addresses in pairs, and never more than the most.
func FuzzTable(f *testing.F) {
	f.Add(int64(1))
	f.Fuzz(func(t *testing.T, seed int64) {
		random := rand.New(rand.NewSource(seed))
		table := NewTable()
		table.next = lastAddress - Address(random.Intn(2000))
		held := map[Address]string{}
		releases := map[Address]func(){}
		for i := 0; i < 20000; i++ {
			name := strconv.Itoa(random.Intn(3 * namesMost))
			switch address, ok := table.Assign(name); {
			case !ok || !address.IsMadeUp():
				t.Fatalf("%s got %x, %v", name, address, ok)
			case held[address] != "" && held[address] != name:
				t.Fatalf("%x of %s went to %s", address, held[address], name)
			case random.Intn(8) == 0 && releases[address] == nil:
				held[address], releases[address], _ = table.Hold(address)
			case random.Intn(4) == 0 && releases[address] != nil:
				releases[address]()
				delete(held, address)
				delete(releases, address)
			}
		}
		if len(table.byName) > namesMost || len(table.byName) != len(table.byAddress) {
			t.Fatalf("%d names, %d addresses", len(table.byName), len(table.byAddress))
		}
		for address, name := range held {
			if found, _ := table.NameOf(address); found != name {
				t.Fatalf("%s became %q", name, found)
			}
		}
	})
}
