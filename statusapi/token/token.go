package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// Role is what a token lets its bearer see: the roles of a workspace, all of an
// org, or the whole cluster uncut.
type Role string

// The roles of R-1, and the one of a program that plans from all there is.
const (
	Viewer        = Role(schema.RoleViewer)
	Member        = Role(schema.RoleMember)
	Editor        = Role(schema.RoleEditor)
	Admin         = Role(schema.RoleAdmin)
	OrgAdmin      = Role("org-admin")
	ClusterReader = Role("cluster-reader")
)

// Roles lists every role, the one that sees least first.
var Roles = []Role{Member, Viewer, Editor, Admin, OrgAdmin, ClusterReader}

// ofWorkspace reports whether a role is one in workspaces.
func (r Role) ofWorkspace() bool { return r != OrgAdmin && r != ClusterReader }

// Entry is what the file says of one token.
type Entry struct {
	// ID names the token where people read; it is the beginning of it and no secret.
	ID string `json:"id"`
	// Hash is "sha256:" and the hexadecimal digest of the whole token.
	Hash string `json:"hash"`
	Role Role   `json:"role"`
	Org  string `json:"org,omitempty"`
	// Workspaces of Org, by name; none for an org's admin and a cluster reader.
	Workspaces []string `json:"workspaces,omitempty"`
	// User is whose runs and volumes a member sees.
	User    string    `json:"user,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Expires is zero for a token that does not.
	Expires time.Time `json:"expires,omitzero"`
}

// Grant is what an entry lets its bearer see, without what identifies the token:
// bearers of one grant get the same answers.
func (e Entry) Grant() string {
	return strings.Join([]string{string(e.Role), e.Org, strings.Join(e.Workspaces, ","), e.User}, "|")
}

// Expired reports whether the token is not valid any more at a time.
func (e Entry) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// Secret is a whole token. It shows itself to nobody: only Reveal gives it out.
type Secret struct{ text string }

// Reveal is the token itself, for the one time that it is printed.
func (s Secret) Reveal() string { return s.text }

// String implements fmt.Stringer and hides the secret.
func (s Secret) String() string { return "REDACTED" }

// GoString implements fmt.GoStringer and hides the secret.
func (s Secret) GoString() string { return "REDACTED" }

// MarshalText hides the secret in JSON and in logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte("REDACTED"), nil }

const (
	prefix    = "astr_"
	idBytes   = 6
	keyBytes  = 32
	hashWord  = "sha256:"
	tokenSize = len(prefix) + 2*idBytes + 1 + 2*keyBytes
)

// New makes a token for an entry, of which ID and Hash are set here. Errors say
// which of its fields do not fit its role.
func New(e Entry) (Secret, Entry, error) {
	if err := e.check(); err != nil {
		return Secret{}, e, err
	}
	random := make([]byte, idBytes+keyBytes)
	if _, err := rand.Read(random); err != nil {
		return Secret{}, e, err
	}
	e.ID = hex.EncodeToString(random[:idBytes])
	secret := Secret{prefix + e.ID + "_" + hex.EncodeToString(random[idBytes:])}
	sum := sha256.Sum256([]byte(secret.text))
	e.Hash = hashWord + hex.EncodeToString(sum[:])
	return secret, e, nil
}

// idOf reads a token's id; ok is false for what cannot be a token.
func idOf(text string) (id string, ok bool) {
	if len(text) != tokenSize || !strings.HasPrefix(text, prefix) {
		return "", false
	}
	id, key, _ := strings.Cut(text[len(prefix):], "_")
	if len(id) != 2*idBytes || len(key) != 2*keyBytes || !lowerHex(id) || !lowerHex(key) {
		return "", false
	}
	return id, true
}

func lowerHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// check says what of an entry does not fit its role.
func (e Entry) check() error {
	switch {
	case !slices.Contains(Roles, e.Role):
		return fmt.Errorf("unknown role %q; roles: %s", e.Role, roleWords())
	case e.Role == ClusterReader && (e.Org != "" || len(e.Workspaces) > 0):
		return errors.New("a cluster-reader sees the whole cluster: leave org and workspaces out")
	case e.Role != ClusterReader && e.Org == "":
		return fmt.Errorf("a token of the role %s needs an org", e.Role)
	case e.Role == OrgAdmin && len(e.Workspaces) > 0:
		return errors.New("an org-admin sees all workspaces of its org: leave workspaces out")
	case e.Role.ofWorkspace() && len(e.Workspaces) == 0:
		return fmt.Errorf("a token of the role %s needs a workspace", e.Role)
	case e.Role == Member && e.User == "":
		return errors.New("a member sees its own runs and volumes: say which user it is")
	}
	for _, text := range append([]string{e.Org, e.User}, e.Workspaces...) {
		if strings.ContainsAny(text, "|,/\x00\n") {
			return fmt.Errorf("%q cannot be a name", text)
		}
	}
	if slices.Contains(e.Workspaces, "") {
		return errors.New("a workspace without a name")
	}
	return nil
}

func roleWords() string {
	words := make([]string, len(Roles))
	for i, r := range Roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
