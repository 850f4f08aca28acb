// Package service decides which verb is taken in which state and hands it to whoever does the work.
package service

import (
	"sync"
	"time"

	"crucible.dev/agent/channel"
	"crucible.dev/agent/command"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/identity"
	"crucible.dev/agent/network"
	"crucible.dev/agent/system"
	"crucible.dev/agent/wire"
	"crucible.dev/agent/world"
)

// Service holds the state of the machine: sealed until its first PREPARE, then live; frozen between
// FREEZE and THAW or PREPARE.
type Service struct {
	Commands *command.Starter
	Identity *identity.Identity
	Machine  *system.Machine
	World    *world.World // the first, whose files the host sees
	Worlds   *world.Worlds
	Network  *network.Network
	Link     *channel.Link

	changing   sync.Mutex // one change of state at a time
	mutex      sync.Mutex
	isPrepared bool
	isFrozen   bool
}

type server func(*Service, *channel.Stream, []byte) (wire.Message, error)

// State is what HELLO tells.
func (s *Service) State() uint8 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.isFrozen:
		return wire.StateFrozen
	case s.isPrepared:
		return wire.StateLive
	}
	return wire.StateSealed
}

// Open is called by the link for every OPEN and must not wait.
func (s *Service) Open(id uint32, session uint64, verb wire.Verb, body []byte) (channel.Endpoint, error) {
	if err := s.admit(verb); err != nil {
		return nil, err
	}
	switch verb {
	case wire.VerbExec:
		return s.Commands.Open(id, session, body)
	case wire.VerbExecIn:
		return s.Commands.OpenIn(id, session, body)
	}
	serve, ok := servers[verb]
	if !ok {
		return nil, failure.New(failure.BadRequest, "unknown verb")
	}
	request := append([]byte(nil), body...) // the link reuses its buffer
	return channel.NewStream(s.Link, id, session, func(stream *channel.Stream) (wire.Message, error) {
		return serve(s, stream, request)
	}), nil
}

// admit refuses what the state does not allow. A sealed machine has no identity yet, so nothing of
// the user may run in it or be read from it.
func (s *Service) admit(verb wire.Verb) error {
	switch s.State() {
	case wire.StateFrozen:
		switch verb {
		case wire.VerbPrepare, wire.VerbThaw, wire.VerbList, wire.VerbStats,
			wire.VerbListen, wire.VerbTake, wire.VerbRefuse:
			return nil
		}
		return failure.New(failure.Frozen, "the machine is frozen")
	case wire.StateSealed:
		switch verb {
		case wire.VerbPrepare, wire.VerbThaw, wire.VerbList, wire.VerbStats, wire.VerbGrow, wire.VerbFreeze,
			wire.VerbShutdown, wire.VerbSyncDisk:
			return nil
		}
		return failure.New(failure.NotPrepared, "the machine has not been prepared")
	}
	return nil
}

var servers = map[wire.Verb]server{
	wire.VerbPrepare:  (*Service).prepare,
	wire.VerbList:     (*Service).list,
	wire.VerbStats:    (*Service).stats,
	wire.VerbRead:     (*Service).read,
	wire.VerbWrite:    (*Service).write,
	wire.VerbStat:     (*Service).stat,
	wire.VerbListDir:  (*Service).listDir,
	wire.VerbRemove:   (*Service).remove,
	wire.VerbRename:   (*Service).rename,
	wire.VerbMkdir:    (*Service).mkdir,
	wire.VerbTarOut:   (*Service).tarOut,
	wire.VerbTarIn:    (*Service).tarIn,
	wire.VerbDial:     (*Service).dial,
	wire.VerbTree:     (*Service).tree,
	wire.VerbGrow:     (*Service).grow,
	wire.VerbFreeze:   (*Service).freeze,
	wire.VerbThaw:     (*Service).thaw,
	wire.VerbShutdown: (*Service).shutdown,
	wire.VerbSyncDisk: (*Service).syncDisk,
	wire.VerbListen:   (*Service).listen,
	wire.VerbTake:     (*Service).take,
	wire.VerbRefuse:   (*Service).refuse,
	wire.VerbConfine:  (*Service).confine,
	wire.VerbLayerOut: (*Service).layerOut,
	wire.VerbWatch:    (*Service).watch,
	wire.VerbEndAll:   (*Service).endAll,
}

func (s *Service) prepare(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Prepare
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.Identity.Prepare(&request); err != nil {
		return nil, err
	}
	s.Machine.Begin()
	s.Network.Settle() // a copy of a machine has no way out before its own host gives it one
	if err := s.unfreeze(); err != nil {
		return nil, err
	}
	s.mutex.Lock()
	s.isPrepared = true
	s.mutex.Unlock()
	return &wire.Empty{}, nil
}

func (s *Service) list(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	return s.Commands.List(), nil
}

func (s *Service) stats(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	return s.Machine.Stats()
}

func (s *Service) grow(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	return s.Machine.Grow()
}

// freeze closes the door first: from here on nothing new starts.
func (s *Service) freeze(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.setFrozen(true)
	s.Worlds.Each(func(each *world.World) error {
		each.Spawner(func() {}) // a command that is just starting has left its last step behind
		return nil
	})
	if err := s.Machine.Freeze(); err != nil {
		s.unfreeze()
		return nil, err
	}
	s.Machine.Remember()
	return &wire.Empty{}, nil
}

func (s *Service) thaw(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	return &wire.Empty{}, s.unfreeze()
}

func (s *Service) unfreeze() error {
	if s.State() != wire.StateFrozen {
		return nil
	}
	if err := s.Machine.User.Thaw(); err != nil {
		return failure.About(err, "thaw")
	}
	s.setFrozen(false)
	return nil
}

func (s *Service) setFrozen(isFrozen bool) {
	s.mutex.Lock()
	s.isFrozen = isFrozen
	s.mutex.Unlock()
}

// answerDelay lets the answer to SHUTDOWN leave the machine before its power goes.
const answerDelay = 20 * time.Millisecond

func (s *Service) shutdown(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Shutdown
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	time.AfterFunc(answerDelay, func() {
		s.Machine.Shutdown(time.Duration(request.GraceMs) * time.Millisecond)
	})
	return &wire.Empty{}, nil
}

func (s *Service) endAll(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.EndAll
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	s.Machine.EndAll(time.Duration(request.GraceMs) * time.Millisecond)
	return &wire.Empty{}, nil
}

func (s *Service) confine(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Confine
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.Worlds.Each(func(each *world.World) error {
		return each.Confine(request.Flags&wire.ConfineReadOnly != 0, request.Flags&wire.ConfineNoPowers != 0)
	})
	return &wire.Empty{}, failure.About(err, "confine")
}

func (s *Service) syncDisk(_ *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.Machine.SyncDisk()
}

func (s *Service) listen(stream *channel.Stream, body []byte) (wire.Message, error) {
	if err := decode(body, &wire.Empty{}); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.Network.Listen(stream)
}

func (s *Service) take(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Take
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.Network.Take(request.Number, stream)
}

func (s *Service) refuse(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Take
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.Network.Refuse(request.Number)
}

func decode(body []byte, request wire.Message) error {
	if err := wire.Decode(body, request); err != nil {
		return failure.New(failure.BadRequest, err.Error())
	}
	return nil
}
