// Package accounts reads the user names of the image. It must be called where the user's files are
// visible, and it trusts nothing in them: a line that makes no sense is passed over.
package accounts

import (
	"strconv"
	"strings"
	"syscall"

	"crucible.dev/agent/failure"
)

const (
	passwdPath = "/etc/passwd"
	groupPath  = "/etc/group"
	fileMost   = 1 << 20
	groupsMost = 64
)

// Account is who a command runs as.
type Account struct {
	Uid, Gid uint32
	Groups   []uint32
	Name     string
	Home     string
	Shell    string
}

// Lookup finds `name` or `uid`, each perhaps with `:group` or `:gid`; the empty string is root. A
// number needs no entry. With a group, that is all the groups it has.
func Lookup(user string) (Account, error) {
	passwd, err := readBounded(passwdPath)
	if err != nil {
		return Account{}, failure.About(err, passwdPath)
	}
	first, second, hasGroup := strings.Cut(user, ":")
	account, err := find(passwd, first)
	if err != nil {
		return Account{}, err
	}
	if account.Name == "" && !hasGroup {
		account.Groups = []uint32{account.Gid}
		return account, nil
	}
	group, err := readBounded(groupPath)
	if err != nil {
		return Account{}, failure.About(err, groupPath)
	}
	if hasGroup {
		return withGroup(group, account, second)
	}
	account.Groups = groupsOf(group, account)
	return account, nil
}

// find takes a number without an entry for somebody of root's group, as container engines do: images
// made for them give their files to it.
func find(passwd, user string) (Account, error) {
	if user == "" {
		user = "0"
	}
	uid, isNumber := parseID(user)
	account, found := inPasswd(passwd, user, uid, isNumber)
	if found {
		return account, nil
	}
	if !isNumber {
		return Account{}, noSuchUser(user)
	}
	account = Account{Uid: uid, Home: "/", Shell: "/bin/sh"}
	if uid == 0 {
		account.Name, account.Home = "root", "/root"
	}
	return account, nil
}

func withGroup(group string, account Account, name string) (Account, error) {
	gid, ok := inGroup(group, name)
	if !ok {
		return Account{}, failure.New(failure.NoSuchUser, "no group "+strconv.Quote(failure.Readable(name)))
	}
	account.Gid, account.Groups = gid, []uint32{gid}
	return account, nil
}

func inGroup(group, name string) (uint32, bool) {
	for _, line := range strings.Split(group, "\n") {
		fields := strings.Split(line, ":")
		if len(fields) < 3 || fields[0] != name || name == "" {
			continue
		}
		if gid, ok := parseID(fields[2]); ok {
			return gid, true
		}
	}
	return parseID(name)
}

// inPasswd prefers an entry of that name over one of that number, as programs do.
func inPasswd(passwd, name string, uid uint32, isNumber bool) (found Account, ok bool) {
	for _, line := range strings.Split(passwd, "\n") {
		fields := strings.Split(line, ":")
		if len(fields) < 7 {
			continue
		}
		lineUid, uidOk := parseID(fields[2])
		lineGid, gidOk := parseID(fields[3])
		if !uidOk || !gidOk || fields[0] == "" {
			continue
		}
		isNamed := fields[0] == name
		if !isNamed && (ok || !isNumber || lineUid != uid) {
			continue
		}
		found = Account{Uid: lineUid, Gid: lineGid, Name: fields[0], Home: fields[5], Shell: fields[6]}
		if found.Home == "" {
			found.Home = "/"
		}
		if found.Shell == "" {
			found.Shell = "/bin/sh"
		}
		if ok = true; isNamed {
			return found, true
		}
	}
	return found, ok
}

func groupsOf(group string, account Account) []uint32 {
	groups := []uint32{account.Gid}
	for _, line := range strings.Split(group, "\n") {
		fields := strings.Split(line, ":")
		if len(fields) < 4 || len(groups) == groupsMost {
			continue
		}
		gid, ok := parseID(fields[2])
		if !ok || gid == account.Gid {
			continue
		}
		for _, member := range strings.Split(fields[3], ",") {
			if member == account.Name {
				groups = append(groups, gid)
				break
			}
		}
	}
	return groups
}

func parseID(text string) (uint32, bool) {
	number, err := strconv.ParseUint(text, 10, 32)
	// The largest number means "leave unchanged" to the kernel and is nobody's.
	return uint32(number), err == nil && number != 1<<32-1
}

func noSuchUser(user string) error {
	return failure.New(failure.NoSuchUser, "no user "+strconv.Quote(failure.Readable(user)))
}

// readBounded reads a file of an image; one without accounts is as good as an empty list.
func readBounded(path string) (string, error) {
	// A user could have put a pipe here; opening must not wait for its other end.
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	content := make([]byte, 0, 4096)
	for len(content) < fileMost {
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
		count, err := syscall.Read(fd, content[len(content):cap(content)])
		if err != nil {
			return "", err
		}
		if count == 0 {
			return string(content), nil
		}
		content = content[:len(content)+count]
	}
	return "", syscall.EFBIG
}
