package linux

import "syscall"

const (
	sysSetns       = 268
	sysSyncfs      = 267
	sysFinitModule = 273
	sysBpf         = 280
	sysFstatat     = syscall.SYS_FSTATAT
)
