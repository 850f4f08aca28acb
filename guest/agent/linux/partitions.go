package linux

import "unsafe"

const (
	blkpg             = 0x1269
	blkpgAddPartition = 1
)

// AddPartition makes part of a block device a device of its own, with that number after its name. Nothing is
// written: the kernel alone knows of it.
func AddPartition(device int, number int32, offset, length uint64) error {
	partition := struct {
		start, length int64
		number        int32
		names         [128]byte
	}{start: int64(offset), length: int64(length), number: number}
	argument := struct {
		operation, flags, size int32
		data                   unsafe.Pointer
	}{operation: blkpgAddPartition, size: int32(unsafe.Sizeof(partition)), data: unsafe.Pointer(&partition)}
	return Ioctl(device, blkpg, unsafe.Pointer(&argument))
}
