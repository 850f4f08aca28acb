package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
)

var past = time.Unix(1234567890, 500000000)

func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, header := range headers {
		header.ModTime, header.Format = past, tar.FormatPAX
		content := ""
		if header.Typeflag == tar.TypeReg {
			content = "content of " + header.Name
			header.Size = int64(len(content))
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	w.Close()
	return packed.Bytes()
}

func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return fd
}

// me owns what the tests unpack, so that they need no privileges.
func me() *accounts.Account {
	return &accounts.Account{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
}

func unpack(t *testing.T, root string, packed []byte) (uint64, error) {
	t.Helper()
	return Read(open(t, root), me(), bytes.NewReader(packed))
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func symlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}
func hardLink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}
func directory(name string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}
}

func TestArchivesThatLeaveTheirRootAreRefused(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"parent":                    {file("../x")},
		"absolute":                  {file("/x")},
		"parent in the middle":      {file("a/../../x")},
		"absolute symlink":          {symlink("l", "/tmp"), file("l/x")},
		"relative symlink":          {symlink("l", "../outside"), file("l/x")},
		"symlink through symlink":   {symlink("a", ".."), symlink("b", "a/outside"), file("b/x")},
		"hard link to the parent":   {hardLink("h", "../outside/secret")},
		"absolute hard link":        {hardLink("h", "/etc/passwd")},
		"hard link through symlink": {symlink("l", "../outside"), hardLink("h", "l/secret")},
		"directory below symlink":   {symlink("l", "../outside"), directory("l/d", 0o755)},
		"symlink below symlink":     {symlink("l", "../outside"), symlink("l/s", "x")},
	} {
		base := t.TempDir()
		root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
		os.Mkdir(root, 0o755)
		os.Mkdir(outside, 0o755)
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600)
		_, err := unpack(t, root, pack(t, headers...))
		var failed *failure.Failure
		if !errors.As(err, &failed) || failed.Code != failure.UnsafeArchive {
			t.Errorf("%s: %v", name, err)
		}
		left, _ := os.ReadDir(outside)
		above, _ := os.ReadDir(base)
		if len(left) != 1 || len(above) != 2 {
			t.Errorf("%s wrote outside: %v %v", name, left, above)
		}
		if content, _ := os.ReadFile(filepath.Join(root, "h")); string(content) == "secret" {
			t.Errorf("%s brought a secret inside", name)
		}
	}
}

func TestALinkThatWasAlreadyThereIsNotWrittenThrough(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	os.WriteFile(victim, []byte("untouched"), 0o644)
	os.Symlink(victim, filepath.Join(root, "f"))
	if _, err := unpack(t, root, pack(t, file("f"))); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(victim); string(content) != "untouched" {
		t.Errorf("the victim holds %q", content)
	}
	if content, _ := os.ReadFile(filepath.Join(root, "f")); string(content) != "content of f" {
		t.Errorf("the file holds %q", content)
	}
}

func TestALinkThatStaysInsideIsFollowed(t *testing.T) {
	root := t.TempDir()
	if _, err := unpack(t, root, pack(t, directory("usr/lib", 0o755), symlink("lib", "usr/lib"), directory("lib", 0o755), file("lib/x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/lib/x")); err != nil {
		t.Error(err)
	}
}

func TestDevicesAreSkipped(t *testing.T) {
	root := t.TempDir()
	count, err := unpack(t, root, pack(t, tar.Header{Typeflag: tar.TypeChar, Name: "c"}, tar.Header{Typeflag: tar.TypeBlock, Name: "b"}, file("f")))
	if err != nil || count != 1 {
		t.Errorf("%d entries, %v", count, err)
	}
}

func TestModesTimesAndLinksSurviveARoundTrip(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	long := strings.Repeat("long/", 60) + "\xff name"
	headers := []tar.Header{
		directory("d", 0o2750), {Typeflag: tar.TypeReg, Name: "d/setuid", Mode: 0o4755}, hardLink("hard", "d/setuid"),
		symlink("soft", "/nowhere"), {Typeflag: tar.TypeFifo, Name: "pipe"}, file(long),
	}
	if count, err := unpack(t, source, pack(t, headers...)); err != nil || count != 6 {
		t.Fatal(count, err)
	}
	var packed bytes.Buffer
	if _, err := Write(open(t, source), nil, &packed); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(t, target, packed.Bytes()); err != nil {
		t.Fatal(err)
	}
	stat := func(name string) (stat syscall.Stat_t) {
		if err := syscall.Lstat(filepath.Join(target, name), &stat); err != nil {
			t.Fatal(err)
		}
		return stat
	}
	for name, mode := range map[string]uint32{
		"d": syscall.S_IFDIR | 0o2750, "d/setuid": syscall.S_IFREG | 0o4755, "pipe": syscall.S_IFIFO | 0o644,
	} {
		if got := stat(name); got.Mode != mode || got.Mtim.Nano() != past.UnixNano() {
			t.Errorf("%s: mode %o, time %d", name, got.Mode, got.Mtim.Nano())
		}
	}
	if stat("hard").Ino != stat("d/setuid").Ino {
		t.Error("the hard link became a file")
	}
	if link, _ := os.Readlink(filepath.Join(target, "soft")); link != "/nowhere" {
		t.Errorf("the symlink names %q", link)
	}
	stat(long)
}

func TestOnlyTheNamesThatWereAskedForAreSent(t *testing.T) {
	root := t.TempDir()
	unpack(t, root, pack(t, file("a"), file("b/c"), file("b/d"), file("e")))
	var packed bytes.Buffer
	count, err := Write(open(t, root), []string{"e", "./b/"}, &packed)
	if err != nil || count != 4 {
		t.Fatal(count, err)
	}
	for _, name := range []string{"../x", "/etc", "a/../../x", "nosuch"} {
		if _, err := Write(open(t, root), []string{name}, io.Discard); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
}

// shrinking truncates a file as soon as its header has been written.
type shrinking struct {
	bytes.Buffer
	path string
}

func (s *shrinking) Write(data []byte) (int, error) {
	os.Truncate(s.path, 1000)
	return s.Buffer.Write(data)
}

func TestAFileThatShrinksMeanwhileIsFilledUp(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "f")
	os.WriteFile(path, bytes.Repeat([]byte("x"), 500000), 0o644)
	output := &shrinking{path: path}
	if _, err := Write(open(t, root), nil, output); err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(&output.Buffer)
	header, err := reader.Next()
	if err != nil || header.Size != 500000 {
		t.Fatal(header, err)
	}
	content, err := io.ReadAll(reader)
	if err != nil || len(content) != 500000 || content[499999] != 0 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
}

func TestWhatIsNotATarIsABadRequest(t *testing.T) {
	whole := pack(t, file("f"))
	for name, raw := range map[string][]byte{"text": bytes.Repeat([]byte("no tar "), 500), "cut": whole[:700]} {
		_, err := unpack(t, t.TempDir(), raw)
		var failed *failure.Failure
		if !errors.As(err, &failed) || failed.Code != failure.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnpackingStaysInside(f *testing.F) {
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		base := t.TempDir()
		root := filepath.Join(base, "root")
		os.Mkdir(root, 0o755)
		unpack(t, root, raw)
		if above, _ := os.ReadDir(base); len(above) != 1 {
			t.Fatalf("wrote outside: %v", above)
		}
	})
}
