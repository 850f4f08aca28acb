package boot

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"crucible.dev/agent/linux"
	"crucible.dev/agent/wire"
)

// Where the images of a composed root and their writable roots are mounted, but for the first one's.
const (
	FurtherImages = "/images"
	FurtherRoots  = "/further"

	// MachineIdFile is what further worlds show as their machine id; PREPARE rewrites it.
	MachineIdFile = "/machine_id"

	partsMost = 16
)

// readComposition reads what the device tells of its images.
func readComposition() (*wire.Composition, error) {
	device, err := os.Open(imageDev)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	var length [4]byte
	if _, err := device.ReadAt(length[:], int64(len(wire.CompositionMagic))); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size > wire.CompositionMost {
		return nil, errors.New("the root says too much of its images")
	}
	body := make([]byte, size)
	if _, err := device.ReadAt(body, wire.CompositionAt); err != nil {
		return nil, err
	}
	return parseComposition(body)
}

func parseComposition(body []byte) (*wire.Composition, error) {
	composition := &wire.Composition{}
	if err := wire.Decode(body, composition); err != nil {
		return nil, err
	}
	if len(composition.Parts) < 1 || len(composition.Parts) > partsMost || composition.Parts[0].Name != "" {
		return nil, errors.New("the root has too few or too many images")
	}
	seen := map[string]bool{}
	for _, part := range composition.Parts[1:] {
		if part.Name == "" || strings.Trim(part.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[part.Name] {
			return nil, errors.New("an image of the root has no name of its own")
		}
		seen[part.Name] = true
	}
	return composition, nil
}

// splitDevice makes a device of each image. The whole one cannot be mounted beside its parts.
func splitDevice(composition *wire.Composition) error {
	device, err := os.Open(imageDev)
	if err != nil {
		return err
	}
	defer device.Close()
	for index, part := range composition.Parts {
		if err := linux.AddPartition(int(device.Fd()), int32(index+1), part.Offset, part.Length); err != nil {
			return &os.PathError{Op: "divide", Path: imageDev, Err: err}
		}
		if err := awaitDevice(partDevice(index)); err != nil {
			return err
		}
	}
	return nil
}

func partDevice(index int) string { return imageDev + strconv.Itoa(index+1) }

// mountFurther gives each further image a writable root of its own.
func mountFurther(composition *wire.Composition) error {
	for index, part := range composition.Parts[1:] {
		lower := FurtherImages + "/" + part.Name
		if err := mountImage(partDevice(index+1), lower); err != nil {
			return err
		}
		own := disk + "/further/" + part.Name
		for _, path := range []string{own + "/upper", own + "/work"} {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		}
		if err := mountOverlay(lower, own, FurtherRoots+"/"+part.Name); err != nil {
			return err
		}
	}
	return os.WriteFile(MachineIdFile, []byte(strings.Repeat("0", 32)+"\n"), 0o444)
}

// mountOverlay lays the directory `upper` of own over the layers below.
func mountOverlay(lower, own, target string) error {
	options := "lowerdir=" + lower + ",upperdir=" + own + "/upper,workdir=" + own + "/work,index=off,metacopy=off,redirect_dir=on"
	return mountAt("overlay", target, "overlay", syscall.MS_NOATIME, options)
}
