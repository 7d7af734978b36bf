package gitsource

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer runs git-upload-pack for whoever has the key or the password, on loopback.
type sshServer struct {
	addr string
	host ssh.Signer
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	return signer, pem.EncodeToMemory(block)
}

func serveSSH(t *testing.T, allowed ssh.PublicKey, password string) *sshServer {
	host, _ := newKey(t)
	cfg := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if string(k.Marshal()) == string(allowed.Marshal()) {
				return nil, nil
			}
			return nil, errors.New("no")
		},
		PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
			if string(p) == password {
				return nil, nil
			}
			return nil, errors.New("no")
		},
	}
	cfg.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var work sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serveConn(c, cfg) })
		}
	})
	return &sshServer{addr: l.Addr().String(), host: host}
}

func serveConn(c net.Conn, cfg *ssh.ServerConfig) {
	defer c.Close()
	conn, chans, reqs, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		for req := range reqs {
			_ = req.Reply(req.Type == "exec", nil)
			if req.Type != "exec" {
				continue
			}
			var cmd struct{ Command string }
			_ = ssh.Unmarshal(req.Payload, &cmd)
			run := exec.Command("sh", "-c", cmd.Command)
			run.Stdout, run.Stderr = ch, ch.Stderr()
			in, _ := run.StdinPipe()
			go func() { _, _ = copyClose(in, ch) }()
			status := struct{ Status uint32 }{}
			if run.Run() != nil {
				status.Status = 1
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
			_ = ch.Close()
		}
	}
}

func copyClose(dst interface {
	Write([]byte) (int, error)
	Close() error
}, src interface{ Read([]byte) (int, error) }) (n int, err error) {
	defer dst.Close()
	buf := make([]byte, 32<<10)
	for {
		m, err := src.Read(buf)
		if _, werr := dst.Write(buf[:m]); werr != nil {
			return n, werr
		}
		n += m
		if err != nil {
			return n, err
		}
	}
}

// G-8: keys, passwords and host keys.
func TestFetchSSH(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	mine, mineKey := newKey(t)
	_, otherKey := newKey(t)
	srv := serveSSH(t, mine.PublicKey(), token)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	stranger, _ := newKey(t)
	line := func(k ssh.PublicKey) []byte { return []byte(knownhosts.Line([]string{srv.addr}, k) + "\n") }
	known := []string{file("known", line(srv.host.PublicKey()))}
	other := []string{file("other", line(stranger.PublicKey()))}
	empty := []string{file("empty", nil)}
	key, bad := file("key", mineKey), file("bad", otherKey)
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", dir)
	url := "ssh://git@" + srv.addr + r.dir
	for name, c := range map[string]struct {
		auth Auth
		want error
	}{
		"key":                  {Auth{SSHKeyFile: key, KnownHosts: known}, nil},
		"password":             {Auth{Password: token, KnownHosts: known}, nil},
		"wrong key":            {Auth{SSHKeyFile: bad, KnownHosts: known}, ErrAuth},
		"wrong password":       {Auth{Password: "wr0ng-" + token, KnownHosts: known}, ErrAuth},
		"no such key":          {Auth{SSHKeyFile: filepath.Join(dir, "nothing"), KnownHosts: known}, ErrAuth},
		"nothing to sign with": {Auth{KnownHosts: known}, ErrAuth},
		"unknown host":         {Auth{SSHKeyFile: key, KnownHosts: empty}, ErrUnavailable},
		"impostor":             {Auth{SSHKeyFile: key, KnownHosts: other}, ErrUnavailable},
		"no known hosts":       {Auth{SSHKeyFile: key, KnownHosts: []string{filepath.Join(dir, "none")}}, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, Options{URL: url, Auth: c.auth})
			snap, err := s.Fetch(testCtx(t))
			if c.want != nil {
				require.Nil(t, snap)
				require.ErrorIs(t, err, c.want)
				require.ErrorIs(t, err, ErrUnavailable)
				noToken(t, err)
				return
			}
			require.NoError(t, err)
			data, err := fs.ReadFile(snap.FS(), "a")
			require.NoError(t, err)
			require.Equal(t, "1", string(data))
		})
	}
	s := openTest(t, Options{URL: url, Auth: Auth{SSHKeyFile: key, KnownHosts: known}})
	fetch(t, s)
	require.Equal(t, r.commit("a", "2"), fetch(t, s).Commit)
	missing := openTest(t, Options{URL: "ssh://git@" + srv.addr + "/nothing/here", Auth: Auth{SSHKeyFile: key, KnownHosts: known}})
	_, err := missing.Fetch(testCtx(t))
	require.Error(t, err)
}
