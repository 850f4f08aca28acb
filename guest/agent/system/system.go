// Package system is about the machine as a whole: what it uses, its disk, and its end.
package system

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"crucible.dev/agent/cgroup"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

// Machine has the user's processes and the writable disk.
type Machine struct {
	User    *cgroup.User
	Disk    string // where the writable filesystem is mounted
	DiskDev string
	Roots   []string // the overlays that lie on it

	mutex   sync.Mutex
	begunNs uint64
	before  cgroup.Usage // what was used before this machine began
	frozen  cgroup.Usage // what had been used when it was last frozen
}

// MemoryTotal is all memory that the kernel manages, in bytes.
func MemoryTotal() uint64 { return memory("MemTotal:") }

// MemoryAvailable is how much of it could still be used without swapping.
func MemoryAvailable() uint64 { return memory("MemAvailable:") }

func memory(key string) uint64 {
	content, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(content), "\n") {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kibibytes, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kibibytes * 1024
		}
	}
	return 0
}

// Remember notes what has been used by the time the machine is frozen.
func (m *Machine) Remember() {
	usage := m.User.Usage()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.frozen = usage
}

// Begin makes the figures count from now: a machine that was restored is not to be charged with
// what its template did. It is on the way of every start, so it asks the kernel nothing.
func (m *Machine) Begin() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.begunNs = linux.ClockNanoseconds(linux.ClockBoottime)
	m.before = m.frozen
}

func (m *Machine) Stats() (*wire.StatsResult, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(m.Disk, &disk); err != nil {
		return nil, failure.About(err, "disk")
	}
	usage := m.User.Usage()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return &wire.StatsResult{
		UptimeNs:        linux.ClockNanoseconds(linux.ClockBoottime) - m.begunNs,
		CpuNs:           usage.CpuNs - m.before.CpuNs,
		MemoryTotal:     MemoryTotal(),
		MemoryAvailable: MemoryAvailable(),
		MemoryUser:      usage.Memory,
		MemoryPeak:      usage.MemoryPeak,
		DiskTotal:       disk.Blocks * uint64(disk.Bsize),
		DiskFree:        disk.Bavail * uint64(disk.Bsize),
		InodesFree:      disk.Ffree,
		Processes:       usage.Processes,
		OomKills:        usage.OomKills - m.before.OomKills,
	}, nil
}

const (
	blkGetSize64   = 0x80081272
	ext4IocResize  = 0x40086610
	ext4Magic      = 0xEF53
	powerOffReboot = syscall.LINUX_REBOOT_CMD_POWER_OFF
)

// Grow lets the filesystem use all of a device that has become larger.
func (m *Machine) Grow() (*wire.GrowResult, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(m.Disk, &disk); err != nil {
		return nil, failure.About(err, "disk")
	}
	if disk.Type == ext4Magic {
		if err := m.resize(uint64(disk.Bsize)); err != nil {
			return nil, failure.About(err, "grow")
		}
		if err := syscall.Statfs(m.Disk, &disk); err != nil {
			return nil, failure.About(err, "disk")
		}
	}
	return &wire.GrowResult{DiskTotal: disk.Blocks * uint64(disk.Bsize)}, nil
}

func (m *Machine) resize(blockSize uint64) error {
	device, err := os.Open(m.DiskDev)
	if err != nil {
		return err
	}
	defer device.Close()
	var bytes uint64
	if err := linux.Ioctl(int(device.Fd()), blkGetSize64, unsafe.Pointer(&bytes)); err != nil {
		return err
	}
	directory, err := os.Open(m.Disk)
	if err != nil {
		return err
	}
	defer directory.Close()
	blocks := bytes / blockSize
	return linux.Ioctl(int(directory.Fd()), ext4IocResize, unsafe.Pointer(&blocks))
}

// SyncDisk writes everything to the disk.
func (m *Machine) SyncDisk() error {
	// Syncing the overlay flushes its upper files; syncing the disk flushes everything else.
	for _, path := range append(m.Roots[:len(m.Roots):len(m.Roots)], m.Disk) {
		directory, err := os.Open(path)
		if err != nil {
			return failure.About(err, path)
		}
		err = linux.Syncfs(int(directory.Fd()))
		directory.Close()
		if err != nil {
			return failure.About(err, path)
		}
	}
	return nil
}

// Freeze stops the user's processes and makes the disk whole, for a snapshot of both.
func (m *Machine) Freeze() error {
	if err := m.User.Freeze(); err != nil {
		return failure.About(err, "freeze")
	}
	return m.SyncDisk()
}

// Shutdown ends the user's processes and turns the machine off.
func (m *Machine) Shutdown(grace time.Duration) {
	m.EndAll(grace)
	PowerOff(append(m.Roots[:len(m.Roots):len(m.Roots)], m.Disk)...)
}

// killPatience is how long processes that were killed may take to be gone.
const killPatience = 2 * time.Second

// EndAll asks the user's processes to end, and ends those that do not within the grace.
func (m *Machine) EndAll(grace time.Duration) {
	m.User.Thaw()
	for _, pid := range m.User.Pids() {
		syscall.Kill(pid, syscall.SIGTERM)
	}
	if !m.isEmptyWithin(grace) {
		m.User.Kill()
		m.isEmptyWithin(killPatience)
	}
}

func (m *Machine) isEmptyWithin(patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for len(m.User.Pids()) > 0 {
		if !time.Now().Before(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// PowerOff unmounts what it can and turns the machine off.
func PowerOff(mounts ...string) {
	syscall.Sync()
	for _, path := range mounts {
		syscall.Unmount(path, syscall.MNT_DETACH)
	}
	syscall.Sync()
	syscall.Reboot(powerOffReboot)
}
