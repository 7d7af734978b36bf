package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"astraeus.io/astraeus/nodeexec/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Records that earlier versions wrote are read to the last field.
func TestRecordsOfVersion1(t *testing.T) {
	dir := "testdata/records-v1"
	for name, v := range map[string]any{specFile: &specRecord{}, processFile: &processRecord{}, stopFile: &stopRecord{}, exitFile: &exitRecord{}} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, decodeRecord(name, b, v))
		again, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, string(b), string(again))
	}
	var s specRecord
	require.ErrorContains(t, decodeRecord("x", []byte(`{"version":1,"later":true}`), &s), `unknown field "later"`)
	require.ErrorContains(t, decodeRecord("x", []byte(`{"version":2}`), &s), "version 2, this program knows 1")
	require.Error(t, decodeRecord("x", nil, &s))
}

// A record directory that was taken away keeps a shim from running: it works
// by descriptor, not by name.
func TestRecordByDescriptor(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.Mkdir(base+"/w", 0o700))
	dir, err := os.Open(base + "/w")
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, os.RemoveAll(base+"/w"))
	require.NoError(t, os.Mkdir(base+"/w", 0o700))
	require.NoError(t, os.WriteFile(base+"/w/"+processFile, []byte("{}"), 0o600))
	require.False(t, hasRecord(dir, processFile))
	require.Error(t, writeRecord(dir, exitFile, exitRecord{}))
	require.NoFileExists(t, base+"/w/"+exitFile)
}

func TestParseStat(t *testing.T) {
	line := func(name, state string) []byte {
		return fmt.Appendf(nil, "12 (%s) %s 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 100 200", name, state, 98765)
	}
	for _, name := range []string{"sh", "a b", "a) R 1 (b", ")"} {
		ticks, alive, err := parseStat(line(name, "S"))
		require.NoError(t, err)
		require.True(t, alive)
		require.EqualValues(t, 98765, ticks)
	}
	for _, state := range []string{"Z", "X"} {
		_, alive, err := parseStat(line("sh", state))
		require.NoError(t, err)
		require.False(t, alive)
	}
	for _, bad := range []string{"", "12 sh S", "12 (sh) S 1"} {
		_, _, err := parseStat([]byte(bad))
		require.Error(t, err)
	}
	ticks, alive, err := startTicks(os.Getpid())
	require.NoError(t, err)
	require.True(t, alive)
	require.NotZero(t, ticks)
}

func TestEnvironment(t *testing.T) {
	require.ElementsMatch(t, []string{"PATH=/opt", "HOME=/root", "A=2", "CUDA_VISIBLE_DEVICES=0,1", "ASTRAEUS_GPUS=0,1"},
		workerEnv([]string{"A=1", "PATH=/opt", "A=2", "ASTRAEUS_GPUS=7"}, []int{0, 1}))
	require.Contains(t, workerEnv(nil, nil), "CUDA_VISIBLE_DEVICES=")
}

func TestConfigMessage(t *testing.T) {
	in := shimConfig{ID: "w", Args: []string{"\x80", "b"}, Files: []runtime.File{{Path: "/x", Content: []byte{0, 1}, Mode: 0o400}}}
	in.Args = in.Args[1:]
	var buf bytes.Buffer
	require.NoError(t, sendConfig(&buf, in))
	whole := buf.Bytes()
	for n := range len(whole) {
		_, err := receiveConfig(bytes.NewReader(whole[:n]))
		require.Error(t, err, "cut at %d", n)
	}
	out, err := receiveConfig(bytes.NewReader(whole))
	require.NoError(t, err)
	require.Equal(t, in, out)
	_, err = receiveConfig(strings.NewReader("\xff\xff\xff\xff"))
	require.Error(t, err)
	in.Files[0].Content = make([]byte, maxConfig)
	require.ErrorContains(t, sendConfig(&buf, in), "above the limit")
}

// simulate runs the filter as the kernel does, for the instructions it uses.
func simulate(t *testing.T, prog []unix.SockFilter, arch, nr, arg0 uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{offNr: nr, offArch: arch, offArg0: arg0}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		i := prog[pc]
		hit := false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = data[i.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			hit = acc == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			hit = acc >= i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			hit = acc&i.K != 0
		default:
			t.Fatalf("instruction %#x", i.Code)
		}
		if hit {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

func TestFilterProgram(t *testing.T) {
	const arch = unix.AUDIT_ARCH_X86_64
	prog := filterProgram(arch)
	allow, eperm, enosys := uint32(unix.SECCOMP_RET_ALLOW), uint32(unix.SECCOMP_RET_ERRNO|unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO|unix.ENOSYS)
	for _, nr := range deniedSyscalls {
		require.Equal(t, eperm, simulate(t, prog, arch, nr, 0))
	}
	for _, nr := range []uint32{unix.SYS_READ, unix.SYS_EXECVE, unix.SYS_MMAP, unix.SYS_PTRACE, unix.SYS_FUTEX, unix.SYS_OPENAT2} {
		require.Equal(t, allow, simulate(t, prog, arch, nr, 0xffffffff))
	}
	require.Equal(t, enosys, simulate(t, prog, arch, unix.SYS_CLONE3, 0))
	require.Equal(t, enosys, simulate(t, prog, arch, unix.SYS_READ|0x40000000, 0), "x32")
	require.Equal(t, enosys, simulate(t, prog, 0x40000003, unix.SYS_READ, 0), "32 bit")
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		require.Equal(t, allow, simulate(t, prog, arch, nr, unix.CLONE_VM|unix.CLONE_VFORK|uint32(unix.SIGCHLD)))
		require.Equal(t, allow, simulate(t, prog, arch, nr, unix.CLONE_FILES|unix.CLONE_FS))
		for _, flag := range []uint32{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWPID} {
			require.Equal(t, eperm, simulate(t, prog, arch, nr, flag|unix.CLONE_VM))
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := New(Options{StateDir: "relative"})
	require.ErrorContains(t, err, "want an absolute path")
	o, err := Options{StateDir: "/x"}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, DefaultShimCommand(), o.ShimCommand)
	require.EqualValues(t, DefaultLogMaxBytes, o.LogMaxBytes)
	require.Equal(t, 30*time.Second, o.stuckAfter)
}

// The whole of Start: record, namespaces, root, command.
func BenchmarkStart(b *testing.B) {
	f := newFixture(b)
	dir := f.drive()
	n := 0
	for b.Loop() {
		n++
		s := f.spec(fmt.Sprint("w", n), "exec sleep 1000", f.mount(dir, "/data", false))
		if err := f.engine.Start(f.deadline, s); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := f.engine.Stop(f.deadline, s.ID, 0); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// From the order to kill until all processes are gone.
func BenchmarkKill(b *testing.B) {
	f := newFixture(b)
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		s := f.spec(fmt.Sprint("w", n), "trap '' TERM; for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait")
		if err := f.engine.Start(f.deadline, s); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := f.engine.Stop(f.deadline, s.ID, 0); err != nil {
			b.Fatal(err)
		}
	}
}
