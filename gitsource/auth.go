package gitsource

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// Auth is how to sign in. What is set here goes before what is in the URL. Files are read at every fetch, so that a
// renewed token is used at once.
type Auth struct {
	Username  string // http: default "git" when there is a token
	Password  Secret // password or token
	TokenFile string // holds the password or token; goes before Password

	// SSH: a key file, else the password, else the agent, else ~/.ssh/id_ed25519, id_ecdsa, id_rsa.
	SSHKeyFile       string
	SSHKeyPassphrase Secret
	// KnownHosts are the files a server's key must be in. Default: SSH_KNOWN_HOSTS, ~/.ssh/known_hosts,
	// /etc/ssh/ssh_known_hosts. There is no way to skip the check.
	KnownHosts []string
}

func (a Auth) secrets() []string { return []string{string(a.Password), string(a.SSHKeyPassphrase)} }

// password returns the password now in force.
func (a Auth) password(u URL) (Secret, error) {
	if a.TokenFile == "" {
		if a.Password != "" {
			return a.Password, nil
		}
		return u.pass, nil
	}
	data, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return "", fmt.Errorf("%w: token file: %w", ErrAuth, err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("%w: the token file is empty", ErrAuth)
	}
	return Secret(token), nil
}

// method chooses how to sign in. The returned secrets are what must not appear in any text from now on.
func (a Auth) method(u URL) (m transport.AuthMethod, secrets []string, err error) {
	user := u.user
	if a.Username != "" {
		user = a.Username
	}
	pass, err := a.password(u)
	if err != nil {
		return nil, nil, err
	}
	secrets = append(append(a.secrets(), u.secrets()...), string(pass))
	if u.scheme == "ssh" {
		m, err = a.sshMethod(u, user, pass)
		return m, secrets, err
	}
	if pass != "" && user == "" {
		user = "git"
	}
	if user == "" {
		return nil, secrets, nil
	}
	basic := &githttp.BasicAuth{Username: user, Password: string(pass)}
	secrets = append(secrets, user+":"+string(pass))
	return basic, secrets, nil
}

func (a Auth) sshMethod(u URL, user string, pass Secret) (transport.AuthMethod, error) {
	if user == "" {
		user = "git"
	}
	known, err := gitssh.NewKnownHostsDb(a.KnownHosts...)
	if err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	host, port := u.hostPort()
	// Ask the server for the kind of key that is known, or it may offer another and look like an impostor.
	check := gitssh.HostKeyCallbackHelper{
		HostKeyCallback:   known.HostKeyCallback(),
		HostKeyAlgorithms: known.HostKeyAlgorithms(net.JoinHostPort(host, strconv.Itoa(port))),
	}
	switch {
	case a.SSHKeyFile != "":
		return a.sshKey(user, a.SSHKeyFile, check)
	case pass != "":
		return timed{&gitssh.Password{User: user, Password: string(pass), HostKeyCallbackHelper: check}}, nil
	case os.Getenv("SSH_AUTH_SOCK") != "":
		agent, err := gitssh.NewSSHAgentAuth(user)
		if err != nil {
			return nil, fmt.Errorf("%w: ssh agent: %w", ErrAuth, err)
		}
		agent.HostKeyCallbackHelper = check
		return timed{agent}, nil
	}
	return a.defaultKey(user, check)
}

func (a Auth) sshKey(user, file string, check gitssh.HostKeyCallbackHelper) (transport.AuthMethod, error) {
	keys, err := gitssh.NewPublicKeysFromFile(user, file, string(a.SSHKeyPassphrase))
	if err != nil {
		return nil, fmt.Errorf("%w: ssh key: %w", ErrAuth, err)
	}
	keys.HostKeyCallbackHelper = check
	return timed{keys}, nil
}

func (a Auth) defaultKey(user string, check gitssh.HostKeyCallbackHelper) (transport.AuthMethod, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("%w: no home directory to find an ssh key in", ErrAuth)
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		m, err := a.sshKey(user, filepath.Join(home, ".ssh", name), check)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
	}
	return nil, fmt.Errorf("%w: no ssh key, agent or password", ErrAuth)
}

// timed bounds the time to connect; go-git has no other place for it.
type timed struct{ gitssh.AuthMethod }

const sshConnectTimeout = 30 * time.Second

func (t timed) ClientConfig() (*ssh.ClientConfig, error) {
	c, err := t.AuthMethod.ClientConfig()
	if err == nil && c.Timeout == 0 {
		c.Timeout = sshConnectTimeout
	}
	return c, err
}
