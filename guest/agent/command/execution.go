package command

import (
	"sync"
	"sync/atomic"
	"time"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

// Execution is one command from OPEN to FORGET. Hosts come and go; it holds what they have not
// acknowledged. Its parts: this file is its face to the link, delivery sends, life waits.
type Execution struct {
	starter *Starter
	stream  uint32
	world   *world.World
	request *wire.Exec
	input   *channel.Inbox

	mutex      sync.Mutex
	changed    *sync.Cond
	session    uint64
	isAttached bool // the host of session wants frames
	isDropped  bool
	notes      [][]byte // whole NOTE and WINDOW frames that go out before data
	outputs    [2]*channel.Replay
	result     *wire.ExecResult
	resultSent bool

	group      *cgroup.Group
	stdio      *stdio
	pid        int // as the agent sees it; 0 before the start and after the end
	worldPid   uint32
	startedNs  uint64
	begun      time.Time
	hasEnded   bool // the main process was reaped
	isTimedOut bool
	lastOutput time.Time
	isDrained  bool // the end of output has been decided; what still comes is thrown away
	pumps      sync.WaitGroup
	carrying   atomic.Int32 // pumps that read, or have read and not yet handed over
}

func newExecution(starter *Starter, stream uint32, session uint64, place *world.World, request *wire.Exec) *Execution {
	e := &Execution{
		starter: starter, stream: stream, session: session, world: place, request: request, isAttached: true,
		outputs: [2]*channel.Replay{channel.NewReplay(), channel.NewReplay()},
	}
	e.changed = sync.NewCond(&e.mutex)
	e.input = channel.NewInbox(e.grantInput)
	return e
}

// Start runs the command in goroutines of its own.
func (e *Execution) Start() { go e.live() }

func (e *Execution) Data(payload []byte) error {
	if e.request.Flags&wire.ExecInput == 0 {
		return failure.New(failure.BadRequest, "no input was announced for this command")
	}
	return e.input.Put(payload)
}

func (e *Execution) End() { e.input.End() }

func (e *Execution) Window(which wire.Channel, limit uint64) {
	if which == wire.Input {
		return
	}
	e.update(func() { e.outputs[which-wire.Output].Allow(limit) })
}

func (e *Execution) Note(kind wire.NoteKind, body []byte) error {
	switch kind {
	case wire.NoteSignal:
		var note wire.Signal
		if err := wire.Decode(body, &note); err != nil || note.Number == 0 || note.Number > 64 {
			return failure.New(failure.BadRequest, "not a signal")
		}
		e.signal(int(note.Number))
	case wire.NoteResize:
		var note wire.Resize
		if err := wire.Decode(body, &note); err != nil {
			return failure.New(failure.BadRequest, err.Error())
		}
		e.resize(note)
	default:
		return failure.New(failure.BadRequest, "unknown note")
	}
	return nil
}

func (e *Execution) resize(size wire.Resize) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.request.Rows, e.request.Columns = size.Rows, size.Columns
	if e.stdio != nil && e.stdio.isPty {
		e.stdio.resize(size.Rows, size.Columns)
	}
}

// Attach lets another host take the command up where it wants to.
func (e *Execution) Attach(session uint64, offsets wire.Offsets) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.isAttached = false
	output, outputOk := e.outputs[0].Rewind(offsets.Output)
	errors, errorsOk := e.outputs[1].Rewind(offsets.Errors)
	if !outputOk || !errorsOk {
		return failure.New(failure.BadRequest, "the command has not written so much")
	}
	received, granted := e.input.Received()
	attached := &wire.Attached{Output: output, Errors: errors, Input: received}
	e.notes = nil
	e.tell(wire.Note, wire.EncodeNote(wire.NoteAttached, attached))
	// The new host cannot know what was granted to the old one.
	e.tell(wire.Window, wire.Encode(&wire.Limit{Limit: granted}))
	e.session, e.isAttached, e.resultSent = session, true, false
	e.changed.Broadcast()
	return nil
}

// Leave stops sending; the command goes on.
func (e *Execution) Leave() bool {
	e.update(func() { e.isAttached = false; e.notes = nil })
	return true
}

// Drop forgets the command. If it still runs, everything it started ends with it; what a finished
// command left behind goes on.
func (e *Execution) Drop() {
	e.starter.forget(e.stream)
	e.input.Close(channel.ErrAbandoned)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.isDropped {
		return
	}
	e.isDropped = true
	if e.group != nil && e.result == nil {
		e.group.Kill()
	}
	e.changed.Broadcast()
}

func (e *Execution) isFinished() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.result != nil
}

func (e *Execution) listed() (wire.Listed, bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	argv0 := e.request.Argv[0]
	if len(argv0) > argv0Most {
		argv0 = argv0[:argv0Most]
	}
	item := wire.Listed{Stream: e.stream, Pid: e.worldPid, StartedNs: e.startedNs, Argv0: argv0}
	if e.result != nil {
		item.Done = 1
	}
	return item, e.worldPid != 0
}

// signal reaches the process group of the command, unless it has ended.
func (e *Execution) signal(number int) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.pid != 0 {
		linux.KillGroup(e.pid, number)
	}
}

// update changes the state and wakes whoever waits for it.
func (e *Execution) update(change func()) {
	e.mutex.Lock()
	change()
	e.mutex.Unlock()
	e.changed.Broadcast()
}
