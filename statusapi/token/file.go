package token

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Errors of Check. A caller learns no more than that it is not let in.
var (
	// ErrUnknown: no such token, a wrong one, or one that was revoked.
	ErrUnknown = errors.New("token not known")
	ErrExpired = errors.New("token expired")
	// ErrFile: the file cannot be used, so that nobody is let in.
	ErrFile = errors.New("the token file cannot be used")
)

// document is the file.
type document struct {
	Version int     `json:"version"`
	Tokens  []Entry `json:"tokens"`
}

const (
	version = 1
	// maxFile bounds what is read: some 100,000 tokens.
	maxFile = 32 << 20
	// othersWrite are the permissions that would let anybody add a token.
	othersWrite = 0o022
)

// Read reads a file strictly. Errors say what of it is wrong.
func Read(file string) ([]Entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", file)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&othersWrite != 0 {
		return nil, fmt.Errorf("others may write %s: chmod 600 it", file)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is too large for a token file", file)
	}
	entries, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}

func parse(data []byte) ([]Entry, error) {
	var doc document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("not a token file: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a token file: something follows the JSON value")
	}
	if doc.Version != version {
		return nil, fmt.Errorf("version %d is not known, this program knows %d", doc.Version, version)
	}
	seen := map[string]bool{}
	for i, e := range doc.Tokens {
		if _, err := digest(e.Hash); err != nil || len(e.ID) != 2*idBytes || !lowerHex(e.ID) {
			return nil, fmt.Errorf("tokens[%d]: no id or no hash", i)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("tokens[%d] (%s): %w", i, e.ID, err)
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("tokens[%d]: the id %s is there twice", i, e.ID)
		}
		seen[e.ID] = true
	}
	return doc.Tokens, nil
}

func digest(hash string) ([]byte, error) {
	text, ok := strings.CutPrefix(hash, hashWord)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, errors.New("no SHA-256")
	}
	return sum, nil
}

// Update changes a file in one piece, one program at a time; a file that is
// missing is made, readable by its owner alone.
func Update(file string, change func([]Entry) ([]Entry, error)) error {
	unlock, err := lockedfile.MutexAt(file + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := Read(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if entries, err = change(slices.Clone(entries)); err != nil {
		return err
	}
	if entries == nil {
		entries = []Entry{}
	}
	data, err := json.MarshalIndent(document{version, entries}, "", "  ")
	if err != nil {
		return err
	}
	return replace(file, append(data, '\n'))
}

func replace(file string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".astraeus-tokens-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// File checks tokens against a file, which is read again when it changed.
type File struct {
	path string

	mu      sync.Mutex
	info    fs.FileInfo // of what was read; nil before the first time
	read    time.Time
	entries map[string]known // by id
	err     error
}

type known struct {
	Entry
	sum []byte
}

// Open reads a file for the first time: one that cannot be used is an error now.
func Open(path string) (*File, error) {
	f := &File{path: path}
	_, err := f.current()
	return f, err
}

// settle is how long a file must have lain still before its time alone says that
// it is the one that was read: times have a grain.
const settle = 2 * time.Second

// current is the newest content.
func (f *File) current() (map[string]known, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && f.err == nil && os.SameFile(info, f.info) && info.Size() == f.info.Size() &&
		info.ModTime().Equal(f.info.ModTime()) && f.read.Sub(info.ModTime()) > settle {
		return f.entries, nil
	}
	var list []Entry
	if err == nil {
		list, err = Read(f.path)
	}
	f.info, f.read, f.entries, f.err = info, time.Now(), nil, nil
	if err != nil {
		f.err = fmt.Errorf("%w: %w", ErrFile, err)
		return nil, f.err
	}
	f.entries = make(map[string]known, len(list))
	for _, e := range list {
		sum, err := digest(e.Hash)
		if err != nil {
			continue // parse refused it
		}
		f.entries[e.ID] = known{e, sum}
	}
	return f.entries, nil
}

// Check is what the file says of a token at a time. Errors: ErrUnknown,
// ErrExpired, ErrFile.
func (f *File) Check(text string, now time.Time) (Entry, error) {
	entries, err := f.current()
	if err != nil {
		return Entry{}, err
	}
	id, ok := idOf(text)
	if !ok {
		return Entry{}, ErrUnknown
	}
	// A token that nobody knows is compared too, with a digest that none has.
	entry, there := entries[id]
	want := entry.sum
	if !there {
		want = make([]byte, sha256.Size)
	}
	sum := sha256.Sum256([]byte(text))
	if subtle.ConstantTimeCompare(sum[:], want) != 1 || !there {
		return Entry{}, ErrUnknown
	}
	if entry.Expired(now) {
		return Entry{}, ErrExpired
	}
	return entry.Entry, nil
}

// Holds reports whether an entry that was let in still is: it is in the file as it
// was, and has not expired.
func (f *File) Holds(e Entry, now time.Time) bool {
	entries, err := f.current()
	if err != nil {
		return false
	}
	is, there := entries[e.ID]
	return there && is.Hash == e.Hash && is.Grant() == e.Grant() && !is.Expired(now)
}
