package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// devices are bound from the machine: mknod fails in a user namespace.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

var devLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	"ptmx": "pts/ptmx",
}

// gpuControl are devices that every NVIDIA GPU needs besides its own.
var gpuControl = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

func (b *rootBuilder) dev() error {
	if err := makeDirs("/dev"); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for _, name := range devices {
		if err := bindDevice(name); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	for _, name := range b.gpuDevices() {
		if err := bindDevice(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	if err := devMounts(b); err != nil {
		return err
	}
	for name, to := range devLinks {
		if err := os.Symlink(to, filepath.Join("dev", name)); err != nil {
			return err
		}
	}
	return setReadOnly("dev")
}

func (b *rootBuilder) gpuDevices() []string {
	if len(b.cfg.GPUs) == 0 {
		return nil
	}
	names := append([]string(nil), gpuControl...)
	for _, g := range b.cfg.GPUs {
		names = append(names, "nvidia"+strconv.Itoa(g))
	}
	return names
}

// bindDevice refuses what is no character device: a file planted in its place.
func bindDevice(name string) error {
	source := "/dev/" + name
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeCharDevice == 0 {
		return errors.New("not a character device")
	}
	if err := makeFile(source, nil, 0o444); err != nil {
		return err
	}
	return bindPath(source, "dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
}

func devMounts(b *rootBuilder) error {
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		if err := makeDirs(dir); err != nil {
			return err
		}
	}
	// No gid= for terminals: group tty is not mapped in a small user namespace.
	err := unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	if err != nil {
		return fmt.Errorf("/dev/pts: %w", err)
	}
	if err := b.tmpfs("dev/shm", 0o1777); err != nil {
		return fmt.Errorf("/dev/shm: %w", err)
	}
	return nil
}
