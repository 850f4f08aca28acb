package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crucible.dev/agent/wire"
)

func TestAFileOfTheLayerIsWrittenThereAndOneThatLiesOverItToo(t *testing.T) {
	root := t.TempDir()
	below, shown, over := filepath.Join(root, "below"), filepath.Join(root, "shown"), filepath.Join(root, "over")
	os.WriteFile(below, []byte("a longer name\n"), 0o644)
	os.Symlink(below, over) // as if somebody had put something else in its place
	os.Link(below, shown)
	file, err := os.OpenFile(below, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	identity := &Identity{layer: map[string]*os.File{shown: file, over: file}}
	for _, path := range []string{shown, over} {
		if err := identity.write(path, "box\n", 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != "box\n" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if info, _ := os.Lstat(over); !info.Mode().IsRegular() {
		t.Error("what lay over the layer was followed")
	}
}

func TestIdentitiesThatMakeNoSenseAreRefused(t *testing.T) {
	good := wire.Prepare{Entropy: strings.Repeat("e", 32), Hostname: "box", MachineId: strings.Repeat("0a", 16),
		BootId: "0b5f1d1e-8f0c-4c44-9a53-0d3f3a5d2b11"}
	if err := check(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*wire.Prepare){
		"little entropy": func(p *wire.Prepare) { p.Entropy = "e" },
		"much entropy":   func(p *wire.Prepare) { p.Entropy = strings.Repeat("e", 513) },
		"no hostname":    func(p *wire.Prepare) { p.Hostname = "" },
		"odd hostname":   func(p *wire.Prepare) { p.Hostname = "a\nb" },
		"machine id":     func(p *wire.Prepare) { p.MachineId = "zz" },
		"boot id":        func(p *wire.Prepare) { p.BootId = "1" },
	} {
		bad := good
		change(&bad)
		if check(&bad) == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
