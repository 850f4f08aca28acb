package main

import (
	"os"
	"strconv"
)

const watcherSlackNs = "5000000"

// calmWatcher lets the thread with which Go watches over its own scheduler sleep longer. While any
// system call is slow, as all are on an emulated processor, it would wake every 20 µs to see about
// it: thousands of timer interrupts a second, each of them dear.
func calmWatcher() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	watcher := 0 // it is the first thread that Go starts
	for _, task := range tasks {
		if id, _ := strconv.Atoi(task.Name()); id > os.Getpid() && (watcher == 0 || id < watcher) {
			watcher = id
		}
	}
	return os.WriteFile("/proc/"+strconv.Itoa(watcher)+"/timerslack_ns", []byte(watcherSlackNs), 0)
}
