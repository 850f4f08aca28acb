package nsexec

import (
	"reflect"
	"syscall"
	"testing"

	"crucible.dev/agent/failure"
	"crucible.dev/agent/wire"
)

func TestWordsAreReadAsTheUsageSays(t *testing.T) {
	for line, want := range map[string]struct {
		words []string
		asked wire.ExecIn
	}{
		"plain":     {[]string{"app", "ls", "-l"}, wire.ExecIn{Image: "app", Exec: wire.Exec{Argv: []string{"ls", "-l"}}}},
		"separator": {[]string{"app", "--", "ls"}, wire.ExecIn{Image: "app", Exec: wire.Exec{Argv: []string{"ls"}}}},
		"both": {[]string{"--", "app", "--", "--", "x"},
			wire.ExecIn{Image: "app", Exec: wire.Exec{Argv: []string{"--", "x"}}}},
		"options": {[]string{"-e", "A=b=c", "-w", "/tmp", "-u", "0", "app", "env"}, wire.ExecIn{Image: "app", Exec: wire.Exec{
			Argv: []string{"env"}, Env: []wire.Pair{{Name: "A", Value: "b=c"}}, Workdir: "/tmp", User: "0"}}},
	} {
		got, err := parse(want.words)
		if err != nil || !reflect.DeepEqual(*got, want.asked) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

func TestWordsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, words := range [][]string{
		{}, {"app"}, {"app", "--"}, {"--"}, {"-e"}, {"-e", "A", "app", "x"}, {"-e", "=b", "app", "x"},
		{"-w"}, {"--help"}, {"-x", "y", "app", "z"}, {"", "ls"},
	} {
		if got, err := parse(words); err == nil {
			t.Errorf("%q was taken as %+v", words, got)
		}
	}
}

func TestVariablesOfTheFirstImageStayThere(t *testing.T) {
	server := NewServer(nil, nil, &wire.Composition{Parts: []wire.Part{
		{Env: []wire.Pair{{Name: "LANG", Value: "C"}, {Name: "PYTHON", Value: "3"}}}, {Name: "app"},
	}})
	given := []wire.Pair{
		{Name: "LANG", Value: "C"}, {Name: "PYTHON", Value: "4"}, {Name: "PATH", Value: "/x"}, {Name: "TOKEN", Value: "t"},
		{Name: "HOME", Value: "/root"}, {Name: "MODE", Value: "changed"}, {Name: "MODE", Value: "again"},
	}
	own := []wire.Pair{{Name: "MODE", Value: "production"}, {Name: "PATH", Value: "/bin"}}
	want := []wire.Pair{
		{Name: "MODE", Value: "again"}, {Name: "PATH", Value: "/bin"}, {Name: "PYTHON", Value: "4"}, {Name: "TOKEN", Value: "t"},
	}
	if got := server.environment(given, own); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestAnswersBecomeTheStatusToEndWith(t *testing.T) {
	for name, each := range map[string]struct {
		answer []byte
		status int
	}{
		"exited":     {wire.AppendBody([]byte{answerResult}, &wire.ExecResult{Code: 7}), 7},
		"killed":     {wire.AppendBody([]byte{answerResult}, &wire.ExecResult{How: wire.HowKilled, Code: 9}), 137},
		"missing":    {wire.AppendBody([]byte{answerFailure}, &wire.Failure{Code: failure.NotFound}), 127},
		"no program": {wire.AppendBody([]byte{answerFailure}, &wire.Failure{Code: failure.NotExecutable}), 126},
		"refused":    {wire.AppendBody([]byte{answerFailure}, &wire.Failure{Code: failure.Permission}), 125},
		"nothing":    {nil, 125},
		"nonsense":   {[]byte{9, 9}, 125},
		"cut short":  {[]byte{answerResult, 0}, 125},
	} {
		if got, _ := conclude(each.answer); got != each.status {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestADirectoryIsNoStream(t *testing.T) {
	for path, isTaken := range map[string]bool{"/": false, "/dev/null": true} {
		fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkStream(fd); (err == nil) != isTaken {
			t.Errorf("%s: %v", path, err)
		}
		syscall.Close(fd)
	}
}
