package files

import (
	"strconv"
	"strings"
)

const (
	asideSuffix = ".crucible"
	freshSuffix = ".new" + asideSuffix
)

// asideName is what a file is called until it is whole. It tells a watch what the move into its place means.
func asideName(id uint32, isFresh bool) string {
	suffix := asideSuffix
	if isFresh {
		suffix = freshSuffix
	}
	return "." + strconv.FormatUint(uint64(id), 10) + suffix
}

// IsAside tells a name of the agent's own making, and whether there was nothing under the file's final name.
func IsAside(name string) (isAside, isFresh bool) {
	number, isFresh := strings.CutSuffix(name, freshSuffix)
	if !isFresh {
		number, isAside = strings.CutSuffix(name, asideSuffix)
		if !isAside {
			return false, false
		}
	}
	if !strings.HasPrefix(number, ".") {
		return false, false
	}
	_, err := strconv.ParseUint(number[1:], 10, 32)
	return err == nil, isFresh
}
