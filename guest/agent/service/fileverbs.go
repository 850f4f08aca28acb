package service

import (
	"syscall"

	"crucible.dev/agent/accounts"
	"crucible.dev/agent/archive"
	"crucible.dev/agent/boot"
	"crucible.dev/agent/channel"
	"crucible.dev/agent/dial"
	"crucible.dev/agent/failure"
	"crucible.dev/agent/files"
	"crucible.dev/agent/watch"
	"crucible.dev/agent/wire"
)

func (s *Service) files() *files.Files { return &files.Files{World: s.World} }

func (s *Service) read(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Read
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return s.files().Read(&request, stream.Output())
}

func (s *Service) write(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Write
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return s.files().Write(&request, stream)
}

func (s *Service) stat(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Stat
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return s.files().Stat(&request)
}

func (s *Service) listDir(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.ListDir
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return s.files().ListDir(&request, stream.Output())
}

func (s *Service) remove(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Remove
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.files().Remove(&request)
}

func (s *Service) rename(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Rename
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.files().Rename(&request)
}

func (s *Service) mkdir(_ *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Mkdir
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, s.files().Mkdir(&request)
}

func (s *Service) tarOut(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.TarOut
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	root, err := s.files().OpenDirectory(request.Root)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(root)
	stream.Output().Open()
	count, err := archive.Write(root, request.Names, stream.Output())
	return &wire.CountResult{Count: count}, about(err, request.Root)
}

// layerOut reads around the user's world: the overlay's own directories are not to be seen there.
func (s *Service) layerOut(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.LayerOut
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	opened := []int{}
	for _, root := range []string{boot.Upper, boot.Sysroot} {
		fd, err := syscall.Open(root, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, failure.About(err, root)
		}
		defer syscall.Close(fd)
		opened = append(opened, fd)
	}
	stream.Output().Open()
	count, err := archive.WriteLayer(opened[0], opened[1], stream.Output())
	return &wire.CountResult{Count: count}, about(err, "layer")
}

// tarIn makes the root if it is missing: whoever sends a tree wants it to be there.
func (s *Service) tarIn(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.TarIn
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	var owner *accounts.Account
	if request.Owner != "" {
		account, err := s.files().Owner(request.Owner)
		if err != nil {
			return nil, err
		}
		owner = &account
	}
	root, err := s.openRoot(&request)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(root)
	count, err := archive.Read(root, owner, stream.Input)
	return &wire.CountResult{Count: count}, about(err, request.Root)
}

func (s *Service) openRoot(request *wire.TarIn) (int, error) {
	made := &wire.Mkdir{Path: request.Root, Mode: 0o755, Owner: request.Owner, Parents: 1}
	if err := s.files().Mkdir(made); err != nil {
		return -1, err
	}
	return s.files().OpenDirectory(request.Root)
}

func (s *Service) tree(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Tree
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return s.files().Tree(&request, stream.Output())
}

func (s *Service) dial(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Dial
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	return &wire.Empty{}, dial.Serve(&request, stream)
}

func (s *Service) watch(stream *channel.Stream, body []byte) (wire.Message, error) {
	var request wire.Watch
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	open := func() (int, error) { return s.files().OpenDirectory(request.Path) }
	stream.Output().Open()
	return &wire.Empty{}, watch.Serve(open, request.Flags&wire.WatchRecursive != 0, stream)
}

func about(err error, subject string) error {
	if err == channel.ErrAbandoned {
		return err
	}
	return failure.About(err, subject)
}
