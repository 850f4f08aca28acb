package accounts

import (
	"errors"
	"reflect"
	"testing"

	"crucible.dev/agent/failure"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
# a comment
broken:line
daemon:x:1:1::/usr/sbin:
1000:x:7:8::/home/odd:/bin/sh
user:x:1000:1001:A User,,,:/home/user:/bin/zsh
negative:x:-1:0::/:/bin/sh
most:x:4294967295:0::/:/bin/sh
`

const group = `root:x:0:
adm:x:4:user,other
user:x:1001:user
sudo:x:27:daemon,user
broken
`

func TestUsersAreFoundByNameAndByNumber(t *testing.T) {
	user := Account{Uid: 1000, Gid: 1001, Name: "user", Home: "/home/user", Shell: "/bin/zsh"}
	for text, want := range map[string]Account{
		"":       {Name: "root", Home: "/root", Shell: "/bin/bash"},
		"root":   {Name: "root", Home: "/root", Shell: "/bin/bash"},
		"0":      {Name: "root", Home: "/root", Shell: "/bin/bash"},
		"user":   user,
		"daemon": {Uid: 1, Gid: 1, Name: "daemon", Home: "/usr/sbin", Shell: "/bin/sh"},
		"1000":   {Uid: 7, Gid: 8, Name: "1000", Home: "/home/odd", Shell: "/bin/sh"},
		"4242":   {Uid: 4242, Home: "/", Shell: "/bin/sh"},
	} {
		got, err := find(passwd, text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestOtherUsersDoNotExist(t *testing.T) {
	for _, text := range []string{"zorro", "-1", "4294967295", "negative", "most", "1 ", "broken"} {
		_, err := find(passwd, text)
		var failed *failure.Failure
		if !errors.As(err, &failed) || failed.Code != failure.NoSuchUser {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnImageWithoutAccountsStillHasRoot(t *testing.T) {
	got, err := find("", "")
	if err != nil || got.Name != "root" || got.Home != "/root" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGroupsStartWithTheUsersOwn(t *testing.T) {
	got := groupsOf(group, Account{Name: "user", Gid: 1001})
	if !reflect.DeepEqual(got, []uint32{1001, 4, 27}) {
		t.Errorf("%v", got)
	}
}

func TestAGroupIsFoundByNameAndByNumber(t *testing.T) {
	user := Account{Uid: 1000, Gid: 1001, Name: "user"}
	for text, want := range map[string]uint32{"adm": 4, "27": 27, "4242": 4242, "0": 0} {
		got, err := withGroup(group, user, text)
		if err != nil || got.Gid != want || !reflect.DeepEqual(got.Groups, []uint32{want}) || got.Uid != 1000 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "nobody", "-1", "4294967295", "2:3", "broken"} {
		if got, err := withGroup(group, user, text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
