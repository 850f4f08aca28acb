package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

func layerOf(t *testing.T, upper string) map[string]*tar.Header {
	t.Helper()
	fd, err := syscall.Open(upper, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var output bytes.Buffer
	if _, err := WriteLayer(fd, fd, &output); err != nil {
		t.Fatal(err)
	}
	found := map[string]*tar.Header{}
	for reader := tar.NewReader(&output); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header
	}
}

func write(t *testing.T, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestALayerHoldsWhatWasRemovedAndNothingOfTheAgent(t *testing.T) {
	upper := t.TempDir()
	for _, name := range []string{
		"proc/x", "sys/x", "dev/x", "run/x", "run-not/x", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/machine-id",
		"etc/kept", "srv/etc/hosts", "srv/run/x",
	} {
		write(t, upper, name)
	}
	if err := syscall.Mknod(filepath.Join(upper, "srv", "gone"), syscall.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	found := layerOf(t, upper)
	names := map[string]bool{}
	for name := range found {
		names[name] = true
	}
	wanted := map[string]bool{
		"etc/": true, "etc/kept": true, "run-not/": true, "run-not/x": true, "srv/": true, "srv/.wh.gone": true,
		"srv/etc/": true, "srv/etc/hosts": true, "srv/run/": true, "srv/run/x": true,
	}
	if !reflect.DeepEqual(names, wanted) {
		t.Errorf("the layer holds %v", names)
	}
	if mark := found["srv/.wh.gone"]; mark.Typeflag != tar.TypeReg || mark.Size != 0 {
		t.Errorf("the whiteout is %v", mark)
	}
}

func TestAFileThatLooksLikeAWhiteoutIsRefused(t *testing.T) {
	upper := t.TempDir()
	write(t, upper, "srv", ".wh.passwd")
	fd, err := syscall.Open(upper, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if _, err := WriteLayer(fd, fd, io.Discard); err == nil {
		t.Error("it was taken for a whiteout")
	}
}
