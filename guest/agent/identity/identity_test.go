package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crucible.dev/agent/wire"
)

func TestTheHostnameIsAddedOnceAndReplacedLater(t *testing.T) {
	first := hostsWith("", "crucible", "alpha")
	if !strings.Contains(first, "localhost") || !strings.HasSuffix(first, "127.0.1.1\talpha\n") {
		t.Fatalf("%q", first)
	}
	if again := hostsWith(first, "alpha", "alpha"); again != first {
		t.Errorf("%q", again)
	}
	second := hostsWith(first, "alpha", "beta")
	if strings.Contains(second, "alpha") || strings.Count(second, "beta") != 1 {
		t.Errorf("%q", second)
	}
}

func TestAHostnameTheUserResolvesIsLeftAlone(t *testing.T) {
	hosts := "127.0.0.1 localhost box\n"
	if got := hostsWith(hosts, "crucible", "box"); got != hosts {
		t.Errorf("%q", got)
	}
}

func TestIdentityFilesAreReplacedAndNeverFollowed(t *testing.T) {
	root := t.TempDir()
	victim, path := filepath.Join(root, "victim"), filepath.Join(root, "machine-id")
	os.WriteFile(victim, []byte("untouched"), 0o644)
	os.Symlink(victim, path)
	for _, content := range []string{"long content\n", "short\n"} {
		if err := rewrite(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("%q", got)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "untouched" {
		t.Errorf("the victim holds %q", got)
	}
}

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
