package wire

type Verb uint8

const (
	VerbPrepare  Verb = 1
	VerbExec     Verb = 2
	VerbList     Verb = 3
	VerbRead     Verb = 4
	VerbWrite    Verb = 5
	VerbStat     Verb = 6
	VerbListDir  Verb = 7
	VerbRemove   Verb = 8
	VerbRename   Verb = 9
	VerbMkdir    Verb = 10
	VerbTarOut   Verb = 11
	VerbTarIn    Verb = 12
	VerbDial     Verb = 13
	VerbTree     Verb = 14
	VerbStats    Verb = 15
	VerbGrow     Verb = 16
	VerbFreeze   Verb = 17
	VerbThaw     Verb = 18
	VerbShutdown Verb = 19
	VerbSyncDisk Verb = 20
	VerbListen   Verb = 21
	VerbTake     Verb = 22
	VerbRefuse   Verb = 23
	VerbConfine  Verb = 24
	VerbLayerOut Verb = 25
	VerbExecIn   Verb = 26
	VerbWatch    Verb = 27
	VerbEndAll   Verb = 28
)

type Prepare struct {
	Entropy    string
	RealtimeNs uint64
	Hostname   string
	MachineId  string
	BootId     string
}

func (m *Prepare) fields(b *body) {
	b.raw(&m.Entropy)
	b.u64(&m.RealtimeNs)
	b.text(&m.Hostname)
	b.text(&m.MachineId)
	b.text(&m.BootId)
}

const (
	ExecPty         = 1
	ExecInput       = 2
	ExecMakeWorkdir = 4
)

const (
	LimitOpenFiles = 1
	LimitFileSize  = 2
	LimitCoreSize  = 3
	LimitProcesses = 4
	LimitMemory    = 5
)

type Pair struct{ Name, Value string }

func (m *Pair) fields(b *body) { b.raw(&m.Name); b.raw(&m.Value) }

type ResourceLimit struct {
	Resource uint8
	Value    uint64
}

func (m *ResourceLimit) fields(b *body) { b.u8(&m.Resource); b.u64(&m.Value) }

type Exec struct {
	Argv          []string
	Env           []Pair
	Workdir       string
	User          string
	Flags         uint8
	Rows, Columns uint16
	TimeoutMs     uint32
	Limits        []ResourceLimit
}

func (m *Exec) fields(b *body) {
	listOf(b, &m.Argv, 4, (*body).raw)
	listOf(b, &m.Env, 8, func(b *body, pair *Pair) { pair.fields(b) })
	b.raw(&m.Workdir)
	b.text(&m.User)
	b.u8(&m.Flags)
	b.u16(&m.Rows)
	b.u16(&m.Columns)
	b.u32(&m.TimeoutMs)
	listOf(b, &m.Limits, 9, func(b *body, limit *ResourceLimit) { limit.fields(b) })
}

const (
	HowExited   = 0
	HowKilled   = 1
	HowTimedOut = 2
)

const (
	HitMemory    = 1
	HitProcesses = 2
)

type ExecResult struct {
	How       uint8
	Code      uint32
	Hit       uint8
	WallNs    uint64
	CpuNs     uint64
	PeakBytes uint64
}

func (m *ExecResult) fields(b *body) {
	b.upTo(&m.How, HowTimedOut)
	b.u32(&m.Code)
	b.upTo(&m.Hit, HitMemory|HitProcesses)
	b.u64(&m.WallNs)
	b.u64(&m.CpuNs)
	b.u64(&m.PeakBytes)
}

type Listed struct {
	Stream, Pid uint32
	Done        uint8
	StartedNs   uint64
	Argv0       string
}

func (m *Listed) fields(b *body) {
	b.u32(&m.Stream)
	b.u32(&m.Pid)
	b.u8(&m.Done)
	b.u64(&m.StartedNs)
	b.raw(&m.Argv0)
}

type ListResult struct{ Execs []Listed }

func (m *ListResult) fields(b *body) {
	listOf(b, &m.Execs, 21, func(b *body, item *Listed) { item.fields(b) })
}

type Dial struct{ Port uint16 }

func (m *Dial) fields(b *body) { b.u16(&m.Port) }

type StatsResult struct {
	UptimeNs, CpuNs                                      uint64
	MemoryTotal, MemoryAvailable, MemoryUser, MemoryPeak uint64
	DiskTotal, DiskFree, InodesFree, Processes, OomKills uint64
}

func (m *StatsResult) fields(b *body) {
	for _, value := range []*uint64{
		&m.UptimeNs, &m.CpuNs, &m.MemoryTotal, &m.MemoryAvailable, &m.MemoryUser, &m.MemoryPeak,
		&m.DiskTotal, &m.DiskFree, &m.InodesFree, &m.Processes, &m.OomKills,
	} {
		b.u64(value)
	}
}

type GrowResult struct{ DiskTotal uint64 }

func (m *GrowResult) fields(b *body) { b.u64(&m.DiskTotal) }

const (
	ConfineReadOnly = 1
	ConfineNoPowers = 2
)

type Confine struct{ Flags uint8 }

func (m *Confine) fields(b *body) { b.u8(&m.Flags) }

const LayerChanges = 0

type LayerOut struct{ What uint8 }

func (m *LayerOut) fields(b *body) { b.upTo(&m.What, LayerChanges) }

type Shutdown struct{ GraceMs uint32 }

func (m *Shutdown) fields(b *body) { b.u32(&m.GraceMs) }

type EndAll struct{ GraceMs uint32 }

func (m *EndAll) fields(b *body) { b.u32(&m.GraceMs) }
