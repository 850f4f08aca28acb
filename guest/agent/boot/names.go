package boot

import (
	"os"
	"syscall"
)

// Names is where the layer with the machine's own names is mounted.
const Names = "/names"

const hostsMost = 1 << 20

// layNames puts a layer in memory over the image, with the files that PREPARE writes: a machine in which
// nothing is done writes nothing to its disk. It returns the layers below the writable one. An image that
// keeps its /etc elsewhere goes without.
func layNames() (string, error) {
	var etc syscall.Stat_t
	if err := syscall.Lstat(image+"/etc", &etc); err != nil || etc.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return image, nil
	}
	if err := mountAt("tmpfs", Names, "tmpfs", syscall.MS_NOATIME, "mode=755,size=4m"); err != nil {
		return "", err
	}
	directory := Names + "/etc"
	if err := os.Mkdir(directory, 0o755); err != nil {
		return "", err
	}
	if err := os.Chown(directory, int(etc.Uid), int(etc.Gid)); err != nil {
		return "", err
	}
	if err := syscall.Chmod(directory, etc.Mode&0o7777); err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"/machine-id": nil, "/hostname": nil, "/hosts": imageHosts()} {
		if err := os.WriteFile(directory+name, content, 0o644); err != nil {
			return "", err
		}
	}
	return Names + ":" + image, os.Chmod(directory+"/machine-id", 0o444)
}

func imageHosts() []byte {
	path := image + "/etc/hosts"
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > hostsMost {
		return nil
	}
	content, _ := os.ReadFile(path)
	return content
}
