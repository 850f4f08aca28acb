package world

import (
	"runtime"
	"sync"

	"crucible.dev/agent/linux"
)

// thread is a goroutine bound to an operating system thread of its own, because namespaces and
// capabilities belong to threads.
type thread struct {
	work chan func()
}

func newThread(become func() error) (*thread, error) {
	t := &thread{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: Go ends the thread with the goroutine
		err := become()
		ready <- err
		if err != nil {
			return
		}
		for work := range t.work {
			work()
		}
	}()
	return t, <-ready
}

func (t *thread) run(work func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		work()
	}
	<-done
}

func (t *thread) end() { close(t.work) }

// idleMost is how many threads for files are kept when nobody needs them.
const idleMost = 2

// filesPool lends threads that see the user's files, with no more powers than the user's root.
type filesPool struct {
	world *World
	mutex sync.Mutex
	idle  []*thread
}

// Files runs work where paths mean what they mean to the user's processes.
func (w *World) Files(work func() error) error {
	t, err := w.files.take()
	if err != nil {
		return err
	}
	t.run(func() { err = work() })
	w.files.giveBack(t)
	return err
}

func (p *filesPool) take() (*thread, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		t := p.idle[last]
		p.idle = p.idle[:last]
		return t, nil
	}
	return newThread(func() error {
		if err := p.world.enter(); err != nil {
			return err
		}
		return linux.SetCapabilities(Capabilities)
	})
}

func (p *filesPool) giveBack(t *thread) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.idle) < idleMost {
		p.idle = append(p.idle, t)
		return
	}
	t.end()
}
