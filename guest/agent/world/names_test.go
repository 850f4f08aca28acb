package world

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThereIsAlwaysAPlainFileToMountTheNameServerUpon(t *testing.T) {
	for name, furnish := range map[string]func(etc string) error{
		"no etc":         func(string) error { return nil },
		"etc is a file":  func(etc string) error { return os.WriteFile(etc, nil, 0o644) },
		"etc is a link":  func(etc string) error { os.Mkdir(etc+"-real", 0o755); return os.Symlink("etc-real", etc) },
		"etc leads away": func(etc string) error { return os.Symlink("nowhere", etc) },
		"nothing there":  func(etc string) error { return os.Mkdir(etc, 0o755) },
		"a file": func(etc string) error {
			os.Mkdir(etc, 0o755)
			return os.WriteFile(etc+"/resolv.conf", []byte("x"), 0o600)
		},
		"a link": func(etc string) error {
			os.Mkdir(etc, 0o755)
			return os.Symlink("../run/systemd/resolve/stub-resolv.conf", etc+"/resolv.conf")
		},
		"a link to itself": func(etc string) error { os.Mkdir(etc, 0o755); return os.Symlink("resolv.conf", etc+"/resolv.conf") },
		"a directory":      func(etc string) error { return os.MkdirAll(etc+"/resolv.conf/deep", 0o755) },
	} {
		etc := filepath.Join(t.TempDir(), "etc")
		if err := furnish(etc); err != nil {
			t.Fatal(name, err)
		}
		target, err := clearFile(etc, "resolv.conf")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() || target != etc+"/resolv.conf" {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
