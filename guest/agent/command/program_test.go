package command

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

func plant(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "plain/tool": 0o644, "other/tool": 0o755, "plain/only": 0o644} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "dirs/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestProgramsAreFoundAsExecvpFindsThem(t *testing.T) {
	root := plant(t)
	for _, each := range []struct{ argv0, path, want string }{
		{"tool", root + "/bin", "/bin/tool"},
		{"tool", "/nowhere:" + root + "/plain:" + root + "/dirs:" + root + "/other", "/other/tool"},
		{"tool", "bin", "/bin/tool"},
		{"bin/tool", "", "/bin/tool"},
		{"./bin/tool", "", "/./bin/tool"},
	} {
		got, err := findProgram(root, each.argv0, each.path)
		if err != nil || got != root+each.want {
			t.Errorf("%+v: %q, %v", each, got, err)
		}
	}
}

func TestAnEmptyPartOfThePathIsTheWorkingDirectory(t *testing.T) {
	root := plant(t)
	got, err := findProgram(root+"/bin", "tool", "/nowhere:")
	if err != nil || got != root+"/bin/tool" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhyAProgramCannotRun(t *testing.T) {
	root := plant(t)
	for _, each := range []struct{ argv0, path, code string }{
		{"nosuch", root + "/bin", failure.NotFound},
		{"/nosuch/tool", "", failure.NotFound},
		{root + "/bin/tool/x", "", failure.NotFound},
		{"", root + "/bin", failure.NotFound},
		{"only", root + "/plain", failure.NotExecutable},
		{root + "/plain/only", "", failure.NotExecutable},
		{root + "/dirs/tool", "", failure.NotExecutable},
		{"tool", root + "/dirs", failure.NotExecutable},
	} {
		_, err := findProgram("/", each.argv0, each.path)
		var failed *failure.Failure
		if !errors.As(err, &failed) || failed.Code != each.code {
			t.Errorf("%+v: %v", each, err)
		}
	}
}

func TestTheWorkingDirectoryMustBeOne(t *testing.T) {
	root := plant(t)
	for _, path := range []string{root + "/nowhere", root + "/bin/tool"} {
		var failed *failure.Failure
		if err := checkWorkdir(path); !errors.As(err, &failed) || failed.Code != failure.NoSuchWorkdir {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheEnvironmentIsFilledInWhereItLacks(t *testing.T) {
	account := accounts.Account{Name: "user", Home: "/home/user", Shell: "/bin/sh"}
	request := &wire.Exec{Env: []wire.Pair{{Name: "HOME", Value: "/mine"}, {Name: "PATH", Value: ""}}, Flags: wire.ExecPty}
	got := environmentOf(request, account)
	want := []string{"HOME=/mine", "PATH=", "SHELL=/bin/sh", "USER=user", "LOGNAME=user", "TERM=xterm-256color"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, request := range []*wire.Exec{
		{},
		{Argv: []string{"a\x00b"}},
		{Argv: []string{"a"}, Env: []wire.Pair{{Name: "A=B"}}},
		{Argv: []string{"a"}, Env: []wire.Pair{{Name: ""}}},
		{Argv: []string{"a"}, Env: []wire.Pair{{Name: "A", Value: "\x00"}}},
		{Argv: []string{"a"}, Workdir: "relative"},
		{Argv: []string{"a"}, Flags: 8},
		{Argv: []string{"a"}, Limits: []wire.ResourceLimit{{Resource: 6}}},
	} {
		if check(request) == nil {
			t.Errorf("%+v was taken", request)
		}
	}
}
