package linux

import "syscall"

const (
	sysSetns       = 308
	sysSyncfs      = 306
	sysFinitModule = 313
	sysBpf         = 321
	sysFstatat     = syscall.SYS_NEWFSTATAT
)
