package world

import (
	"os"
	"path/filepath"
	"syscall"
)

const (
	runEntriesMost = 1024
	runFileMost    = 1 << 20
)

// kept is one thing that an image has below /run.
type kept struct {
	path    string
	mode    os.FileMode
	uid     int
	gid     int
	target  string
	content []byte
}

type keptTree []kept

// rememberRun reads what lies below a directory: directories, links and small files. An image that
// has more there than anybody would put there gets no further than the bound.
func rememberRun(root string) keptTree {
	var tree keptTree
	filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == root {
			return nil
		}
		if len(tree) == runEntriesMost {
			return filepath.SkipAll
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		found := kept{path: path[len(root):], mode: info.Mode(), uid: int(stat.Uid), gid: int(stat.Gid)}
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			found.target, err = os.Readlink(path)
		case info.Mode().IsRegular() && info.Size() <= runFileMost:
			found.content, err = os.ReadFile(path)
		case !info.IsDir():
			return nil
		}
		if err == nil {
			tree = append(tree, found)
		}
		return nil
	})
	return tree
}

// restore makes it again in the filesystem that now lies over it.
func (tree keptTree) restore(root string) error {
	for _, each := range tree {
		path := root + each.path
		var err error
		switch {
		case each.mode&os.ModeSymlink != 0:
			err = os.Symlink(each.target, path)
		case each.mode.IsDir():
			err = os.Mkdir(path, 0o755)
		default:
			err = os.WriteFile(path, each.content, 0o600)
		}
		if err == nil {
			err = os.Lchown(path, each.uid, each.gid)
		}
		if err == nil && each.mode&os.ModeSymlink == 0 {
			err = os.Chmod(path, each.mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
