package walk

import (
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"testing"
)

func plant(t *testing.T, names ...string) (string, int) {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		if name[len(name)-1] == '/' {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := syscall.Open(root, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return root, fd
}

func pathsBelow(t *testing.T, fd int) (paths []string) {
	t.Helper()
	if err := Below(fd, func(found *Found) error {
		paths = append(paths, found.Path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestPathsComeInByteOrderAndDirectoriesBeforeWhatTheyHold(t *testing.T) {
	_, fd := plant(t, "a/c", "a/b/x", "a-b/d", "a.x", "empty/", "\xff", "a/b-c", "A")
	paths := pathsBelow(t, fd)
	if len(paths) != 11 {
		t.Fatalf("%d paths: %q", len(paths), paths)
	}
	if !sort.StringsAreSorted(paths) {
		t.Errorf("not in byte order: %q", paths)
	}
}

func TestASymlinkIsNamedAndNotFollowed(t *testing.T) {
	root, fd := plant(t, "real/file")
	if err := os.Symlink("real", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	paths := pathsBelow(t, fd)
	if len(paths) != 3 || paths[0] != "link" {
		t.Errorf("got %q", paths)
	}
}
