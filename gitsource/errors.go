package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Kinds of failure, for errors.Is. Every error of a Source or Recorder that is not the caller's context ending is one
// of them.
var (
	// ErrNotRepository: the path or URL is not a git repository.
	ErrNotRepository = errors.New("not a git repository")
	// ErrEmptyRepository: the repository has no commit yet. It is not an empty tree.
	ErrEmptyRepository = errors.New("the repository has no commits")
	// ErrRefNotFound: the branch, tag or revision does not exist (any more).
	ErrRefNotFound = errors.New("ref not found")
	// ErrUnavailable: the repository cannot be reached now; the same call may work later.
	ErrUnavailable = errors.New("repository unavailable")
	// ErrAuth: the server refused the credentials. Such errors are ErrUnavailable too: a new token heals them.
	ErrAuth = errors.New("authentication failed")
	// ErrCorrupt: an object is missing or is not what its hash says.
	ErrCorrupt = errors.New("repository is damaged")
	// ErrLocked: another process uses the cache or recorder directory; the text names it.
	ErrLocked = errors.New("in use by another process")
	// ErrShallow: the question needs history that the repository does not have.
	ErrShallow = errors.New("history is cut off")
	// ErrTooLarge: a file is larger than Options.MaxFileBytes; see TooLargeError.
	ErrTooLarge = errors.New("file too large")
	// ErrTooMany: a tree has more entries than Options.MaxEntries.
	ErrTooMany = errors.New("too many files")
	// ErrURL: the URL cannot be used: unknown scheme, control characters, no host.
	ErrURL = errors.New("unusable repository URL")
	// ErrUnsupported: the repository uses a format that is not supported (SHA-256 objects, reftable).
	ErrUnsupported = errors.New("unsupported repository format")
	// ErrClosed: the Source or Recorder was closed.
	ErrClosed = errors.New("closed")
)

// Error is a failed operation on a repository. Its text, and that of everything it unwraps to, holds no credential.
type Error struct {
	Op   string // "open", "fetch", "read" …
	Repo string // redacted URL or path
	Kind error  // one of the Err values above
	Err  error  // the redacted cause; may be nil
}

func (e *Error) Error() string {
	text := e.Op + " " + e.Repo + ": " + e.Kind.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the kind and the redacted cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Temporary tells that the same call may succeed later without anyone changing the configuration.
func (e *Error) Temporary() bool { return errors.Is(e.Kind, ErrUnavailable) }

// TooLargeError is the cause of a refused read of a large file (errors.Is ErrTooLarge).
type TooLargeError struct {
	Path        string
	Size, Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes, the limit is %d", e.Size, e.Limit)
}

// Is makes errors.Is(err, ErrTooLarge) true.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// cleanError stands for a foreign error whose text was redacted. It can be compared (errors.Is) but not unwrapped:
// the original, which may hold a token in a field, stays inside.
type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string        { return e.text }
func (e *cleanError) Is(target error) bool { return errors.Is(e.cause, target) }

// Timeout tells whether the cause was a timeout (net.Error).
func (e *cleanError) Timeout() bool {
	var ne net.Error
	return errors.As(e.cause, &ne) && ne.Timeout() || errors.Is(e.cause, context.DeadlineExceeded)
}

func (e *cleanError) Temporary() bool { return true }

// classified carries a kind from where an error is understood to where it is wrapped with operation and repository.
type classified struct {
	kind error
	err  error
}

func (e *classified) Error() string {
	if e.err == nil {
		return e.kind.Error()
	}
	return e.err.Error()
}

func (e *classified) Unwrap() []error { return []error{e.kind, e.err} }

func fail(kind error, format string, args ...any) error {
	return &classified{kind: kind, err: fmt.Errorf(format, args...)}
}

// wrap makes err an *Error of the given repository. Context errors of the caller keep their identity.
func (r redactor) wrap(op, repo string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	var c *classified
	if errors.As(err, &c) {
		if c.err == nil {
			return &Error{Op: op, Repo: repo, Kind: c.kind}
		}
		return &Error{Op: op, Repo: repo, Kind: c.kind, Err: r.clean(c.err)}
	}
	if kind := bareKind(err); kind != nil {
		return &Error{Op: op, Repo: repo, Kind: kind}
	}
	return &Error{Op: op, Repo: repo, Kind: ErrUnavailable, Err: r.clean(err)}
}

func bareKind(err error) error {
	for _, kind := range []error{
		ErrNotRepository, ErrEmptyRepository, ErrRefNotFound, ErrCorrupt, ErrLocked, ErrShallow, ErrTooMany, ErrURL,
		ErrUnsupported, ErrClosed,
	} {
		if err == kind {
			return kind
		}
	}
	return nil
}
