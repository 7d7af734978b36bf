package gitsource

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	got, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return got
}

// overwrite replaces part of a file that may be read-only.
func overwrite(t testing.TB, path string, f func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, f(data), 0o600))
}

// G-5: whatever happened to the cache, the next fetch serves the right files from a new clone.
func TestBrokenCache(t *testing.T) {
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, damage := range map[string]func(t *testing.T, cache, clone string){
		"pack cut off": func(t *testing.T, _, clone string) {
			overwrite(t, glob(t, clone+"/objects/pack/*.pack")[0], half)
		},
		"pack of zeroes": func(t *testing.T, _, clone string) {
			overwrite(t, glob(t, clone+"/objects/pack/*.pack")[0], func(b []byte) []byte {
				return append(append([]byte{}, b[:12]...), append(make([]byte, len(b)-32), b[len(b)-20:]...)...)
			})
		},
		"pack gone": func(t *testing.T, _, clone string) {
			require.NoError(t, os.Remove(glob(t, clone+"/objects/pack/*.pack")[0]))
		},
		"index cut off": func(t *testing.T, _, clone string) {
			overwrite(t, glob(t, clone+"/objects/pack/*.idx")[0], half)
		},
		"index gone": func(t *testing.T, _, clone string) {
			require.NoError(t, os.Remove(glob(t, clone+"/objects/pack/*.idx")[0]))
		},
		"no HEAD":    func(t *testing.T, _, clone string) { require.NoError(t, os.Remove(filepath.Join(clone, "HEAD"))) },
		"clone gone": func(t *testing.T, _, clone string) { require.NoError(t, os.RemoveAll(clone)) },
		"config noise": func(t *testing.T, _, clone string) {
			overwrite(t, filepath.Join(clone, "config"), func([]byte) []byte { return []byte("[[[") })
		},
		"no pointer": func(t *testing.T, cache, _ string) { require.NoError(t, os.Remove(filepath.Join(cache, "current"))) },
		"pointer out of the cache": func(t *testing.T, cache, _ string) {
			require.NoError(t, os.WriteFile(filepath.Join(cache, "current"), []byte("clone-/../../../etc"), 0o600))
		},
		"half-made clone beside": func(t *testing.T, cache, _ string) {
			require.NoError(t, os.MkdirAll(filepath.Join(cache, "clone-half", "objects"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(cache, "clone-half", "objects", "tmp_pack_1"), []byte("x"), 0o600))
		},
		"planted locks": func(t *testing.T, _, clone string) {
			for _, f := range []string{"HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "refs/heads/main.lock", "index.lock"} {
				require.NoError(t, os.WriteFile(filepath.Join(clone, f), nil, 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(clone, "objects/pack/tmp_pack_9"), []byte("x"), 0o600))
		},
		"ref of zeroes": func(t *testing.T, _, clone string) {
			require.NoError(t, os.WriteFile(filepath.Join(clone, "refs/heads/main"), []byte(strings.Repeat("0", 40)), 0o600))
		},
		"ref of noise": func(t *testing.T, _, clone string) {
			require.NoError(t, os.WriteFile(filepath.Join(clone, "refs/heads/main"), []byte("x\x00"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write("dir/a", "1")
			r.commit("b", "2")
			srv := serve(t, r)
			base := t.TempDir()
			open := func() *Source {
				s, err := Open(testCtx(t), Options{URL: srv.url(""), CacheDir: base})
				require.NoError(t, err)
				return s
			}
			s := open()
			fetch(t, s)
			require.NoError(t, s.Close())
			damage(t, glob(t, base+"/*")[0], glob(t, base+"/*/clone-*")[0])
			for range 2 { // the second time from what the first left
				s = open()
				for _, text := range []string{"2", "3"} {
					if text == "3" {
						r.commit("b", text)
					}
					snap := fetch(t, s)
					data, err := fs.ReadFile(snap.FS(), "b")
					require.NoError(t, err)
					require.Equal(t, text, string(data))
					data, err = fs.ReadFile(snap.FS(), "dir/a")
					require.NoError(t, err)
					require.Equal(t, "1", string(data))
				}
				require.NoError(t, s.Close())
				require.Len(t, glob(t, base+"/*/clone-*"), 1, "nothing is left beside")
				require.Empty(t, glob(t, base+"/*/clone-*/*.lock"))
				require.Empty(t, glob(t, base+"/*/clone-*/objects/pack/tmp_*"))
				r.git("reset", "-q", "--hard", "HEAD~1")
			}
		})
	}
}

// G-5: damage that shows only when a file is read is an error then, and heals at the next fetch, also for the snapshot
// at hand.
func TestDamageFoundWhileReading(t *testing.T) {
	r := newRepo(t)
	r.write("a", strings.Repeat("first file ", 100))
	r.commit("b", strings.Repeat("second file ", 100))
	srv := serve(t, r)
	base := t.TempDir()
	s := openTest(t, Options{URL: srv.url(""), CacheDir: base})
	fetch(t, s)
	require.NoError(t, s.Close())
	blob := r.git("rev-parse", "HEAD:a")
	pack := glob(t, base+"/*/clone-*/objects/pack/*.pack")[0]
	offset := 0
	for _, line := range strings.Split(r.git("verify-pack", "-v", pack), "\n") {
		if f := strings.Fields(line); len(f) >= 5 && f[0] == blob {
			for _, c := range f[4] {
				offset = offset*10 + int(c-'0')
			}
		}
	}
	require.NotZero(t, offset)
	overwrite(t, pack, func(b []byte) []byte { b[offset+8] ^= 0xff; return b })

	s = openTest(t, Options{URL: srv.url(""), CacheDir: base})
	snap := fetch(t, s)
	_, err := fs.ReadFile(snap.FS(), "a")
	require.ErrorIs(t, err, ErrCorrupt)

	// During an outage it stays an error.
	srv.set(func() { srv.fail = 500 })
	_, err = s.Fetch(testCtx(t))
	require.ErrorIs(t, err, ErrUnavailable)
	srv.set(func() { srv.fail = 0 })

	require.Same(t, snap, fetch(t, s))
	data, err := fs.ReadFile(snap.FS(), "a")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("first file ", 100), string(data))
}

func TestCacheLock(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	srv := serve(t, r)
	base := t.TempDir()
	s := openTest(t, Options{URL: srv.url(""), CacheDir: base})
	_, err := Open(testCtx(t), Options{URL: srv.url(""), CacheDir: base})
	require.ErrorIs(t, err, ErrLocked)
	require.Regexp(t, `gitsource\.test \(pid \d+ on .+, since .+Z\) has .+lock`, err.Error())
	other := openTest(t, Options{URL: srv.url(""), CacheDir: base, Ref: "main"})
	fetch(t, other)
	require.NoError(t, s.Close())
	again := openTest(t, Options{URL: srv.url(""), CacheDir: base})
	fetch(t, again)
}

func TestCacheCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(testCtx(t), Options{URL: "https://token@example.invalid/x", CacheDir: file})
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "token")
}
