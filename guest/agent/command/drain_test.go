package command

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// ended is a command whose main process is over for long, with the other end of its output.
func ended(t *testing.T) (*Execution, *os.File) {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	writing := os.NewFile(uintptr(ends[1]), "writing")
	t.Cleanup(func() { writing.Close() })
	e := newExecution(nil, 1, 1, nil, nil)
	e.stdio = &stdio{output: pollable(ends[0])}
	e.hasEnded, e.lastOutput = true, time.Now().Add(-time.Hour)
	return e, writing
}

func TestAPipeThatIsOpenAndEmptyIsSilent(t *testing.T) {
	if e, _ := ended(t); !e.isSilent() {
		t.Error("nothing came for an hour")
	}
}

func TestOutputThatNoPumpHasReadIsNotSilence(t *testing.T) {
	e, writing := ended(t)
	writing.WriteString("last words")
	if e.isSilent() {
		t.Error("it would be lost")
	}
}

func TestAnEndThatNoPumpHasSeenIsNotSilence(t *testing.T) {
	e, writing := ended(t)
	writing.Close()
	if e.isSilent() {
		t.Error("its pump ends it")
	}
}

func TestOutputThatAPumpHasReadAndNotHandedOverIsNotSilence(t *testing.T) {
	e, writing := ended(t)
	writing.WriteString("last words")
	frame, count, err := e.readBorrowed(e.stdio.output, 100)
	if err != nil || e.isSilent() {
		t.Fatal("it would be lost", err)
	}
	e.take(0, frame[:count])
	e.carrying.Add(-1)
	if e.isSilent() {
		t.Error("it came just now")
	}
	e.lastOutput = time.Now().Add(-time.Hour)
	if !e.isSilent() {
		t.Error("everything is handed over")
	}
}
