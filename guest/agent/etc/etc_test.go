package etc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheHostnameIsAddedOnceAndReplacedLater(t *testing.T) {
	first := HostsWith("", "crucible", "alpha")
	if !strings.Contains(first, "localhost") || !strings.HasSuffix(first, "127.0.1.1\talpha\n") {
		t.Fatalf("%q", first)
	}
	if again := HostsWith(first, "alpha", "alpha"); again != first {
		t.Errorf("%q", again)
	}
	second := HostsWith(first, "alpha", "beta")
	if strings.Contains(second, "alpha") || strings.Count(second, "beta") != 1 {
		t.Errorf("%q", second)
	}
}

func TestAHostnameTheUserResolvesIsLeftAlone(t *testing.T) {
	hosts := "127.0.0.1 localhost box\n"
	if got := HostsWith(hosts, "crucible", "box"); got != hosts {
		t.Errorf("%q", got)
	}
}

func TestIdentityFilesAreReplacedAndNeverFollowed(t *testing.T) {
	root := t.TempDir()
	victim, path := filepath.Join(root, "victim"), filepath.Join(root, "machine-id")
	os.WriteFile(victim, []byte("untouched"), 0o644)
	os.Symlink(victim, path)
	for _, content := range []string{"long content\n", "short\n"} {
		if err := Rewrite(path, content, 0o644); err != nil {
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
