package command

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

const (
	killDelay    = 2 * time.Second        // between the TERM of a timeout and the end of everything
	drainSilence = 200 * time.Millisecond // how long output may pause after the command has ended
)

// live takes a command from start to result.
func (e *Execution) live() {
	process, err := e.begin()
	if err != nil {
		e.starter.Link.Remove(e.stream)
		e.mutex.Lock()
		session, isAttached := e.session, e.isAttached
		e.mutex.Unlock()
		e.Drop()
		if isAttached {
			e.starter.Link.Fail(session, e.stream, err)
		}
		return
	}
	go e.deliver()
	e.starter.groups.PrepareSoon()
	stopClock := e.watchClock()
	status := process.Wait()
	result := e.conclude(status)
	e.drain()
	stopClock()
	e.update(func() { e.result = result })
	e.release()
}

// begin starts the command and queues the note that tells of it.
func (e *Execution) begin() (*Process, error) {
	group, err := e.starter.groups.Take()
	if err != nil {
		return nil, failure.About(err, "cgroup")
	}
	e.update(func() { e.group = group })
	if err := limitGroup(e.request, group); err != nil {
		group.Release()
		return nil, failure.About(err, "limits")
	}
	e.startedNs = linux.ClockNanoseconds(linux.ClockRealtime)
	started, err := e.starter.spawn(e.world, e.request, group)
	if err != nil {
		group.Release()
		return nil, err
	}
	e.begun = time.Now()
	group.CloseFd()
	process, err := follow(started.pid)
	if err != nil {
		group.Kill()
		return nil, failure.About(err, "pidfd")
	}
	e.startPumps(started.stdio)
	e.update(func() {
		e.stdio, e.pid, e.worldPid = started.stdio, started.pid, process.worldPid()
		note := wire.EncodeNote(wire.NoteStarted, &wire.Started{Pid: e.worldPid})
		if e.isAttached {
			e.tell(wire.Note, note)
		}
		if e.isDropped {
			group.Kill() // FORGET came while it started
		}
	})
	return process, nil
}

// watchClock ends a command that takes too long. The result does not wait for the second step, so
// the returned function leaves it alone once it is due.
func (e *Execution) watchClock() (stop func()) {
	if e.request.TimeoutMs == 0 {
		return func() {}
	}
	timer := time.AfterFunc(time.Duration(e.request.TimeoutMs)*time.Millisecond, func() {
		e.update(func() { e.isTimedOut = true })
		e.signal(int(syscall.SIGTERM))
		time.AfterFunc(killDelay, func() { e.group.Kill() })
	})
	return func() { timer.Stop() }
}

// conclude turns the status of the main process and the group's counters into the result.
func (e *Execution) conclude(status syscall.WaitStatus) *wire.ExecResult {
	result := &wire.ExecResult{
		WallNs:    uint64(time.Since(e.begun)),
		CpuNs:     e.group.CpuNs(),
		PeakBytes: e.group.PeakBytes(),
	}
	if e.group.OomKills() > 0 {
		result.Hit |= wire.HitMemory
	}
	if e.group.RefusedForks() > 0 {
		result.Hit |= wire.HitProcesses
	}
	if status.Signaled() {
		result.How, result.Code = wire.HowKilled, uint32(status.Signal())
	} else {
		result.How, result.Code = wire.HowExited, uint32(status.ExitStatus())
	}
	e.update(func() {
		e.pid, e.hasEnded = 0, true
		e.lastOutput = time.Now()
		if e.isTimedOut {
			result.How = wire.HowTimedOut
		}
	})
	e.input.Close(channel.ErrAbandoned)
	if e.stdio.isPty {
		e.stdio.output.SetReadDeadline(time.Unix(1, 0)) // wakes its pump
	}
	return result
}

// drain waits for the rest of the output: until the pipes are closed, or nothing came for a while.
// Output that waits for a host or for its pump is not silence.
func (e *Execution) drain() {
	closed := make(chan struct{})
	go func() { e.pumps.Wait(); close(closed) }()
	timer := time.NewTimer(drainSilence)
	defer timer.Stop()
	for !e.isSilent() {
		select {
		case <-closed:
			e.finishOutput()
			return
		case <-timer.C:
			timer.Reset(drainSilence / 4)
		}
	}
	e.finishOutput()
}

// isSilent looks first where output comes from: what a pump takes from there meanwhile is then found with it, and
// what it handed over by its time. A machine can stand still for longer than drainSilence between any two lines.
func (e *Execution) isSilent() bool {
	if e.stdio.hasMore() || e.carrying.Load() > 0 {
		return false
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, replay := range e.outputs {
		if !replay.IsClosed() && replay.Room() == 0 && !e.isDropped {
			return false
		}
	}
	return time.Since(e.lastOutput) >= drainSilence
}

func (e *Execution) finishOutput() {
	e.update(func() {
		e.isDrained = true
		for _, replay := range e.outputs {
			replay.Close()
		}
	})
}

// release gives up what only a running command needs. A terminal hangs up; pipes stay open for
// those whom the command left behind, since a closed one would kill them at their next word.
func (e *Execution) release() {
	if e.stdio.isPty {
		e.stdio.output.Close()
	} else if e.stdio.input != nil {
		e.stdio.input.Close()
	}
	e.group.Release()
}

// Process is the main process of a command, watched without a thread.
type Process struct {
	pid   int
	pidfd *os.File
}

func follow(pid int) (*Process, error) {
	fd, err := linux.PidfdOpen(pid)
	if err != nil {
		return nil, err
	}
	syscall.SetNonblock(fd, true)
	return &Process{pid, os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Wait reaps the process. Nobody else waits for it, so its status cannot be lost.
func (p *Process) Wait() (status syscall.WaitStatus) {
	defer p.pidfd.Close()
	raw, err := p.pidfd.SyscallConn()
	if err == nil {
		err = raw.Read(func(uintptr) bool {
			pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
			return pid == p.pid || err != nil && err != syscall.EINTR
		})
	}
	if err != nil {
		syscall.Wait4(p.pid, &status, 0, nil)
	}
	return status
}

// Signal reaches the process group, unless the process has ended and was reaped.
func (p *Process) Signal(number int) { linux.KillGroup(p.pid, number) }

// worldPid is the number by which the user's processes know this one.
func (p *Process) worldPid() uint32 {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return 0
	}
	var content []byte
	raw.Control(func(fd uintptr) { content, _ = os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(fd))) })
	for _, line := range strings.Split(string(content), "\n") {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			numbers := strings.Fields(rest)
			pid, _ := strconv.ParseUint(numbers[len(numbers)-1], 10, 32)
			return uint32(pid)
		}
	}
	return 0
}
