package nodeexec

import (
	"context"
	"errors"
	"fmt"

	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
)

// Codes of the failures that an agent reports.
const (
	CodeRefused     = "REFUSED"     // the step contradicts the target or the machine
	CodeMissing     = "MISSING"     // a path does not exist (D-3, V-1)
	CodeForbidden   = "FORBIDDEN"   // a path is not under its grant or policy (D-21, X-16, V-4)
	CodeNotMounted  = "NOT_MOUNTED" // a data location or source is on another filesystem
	CodeDenied      = "DENIED"      // the server does not export to this machine
	CodeBusy        = "BUSY"
	CodeStuck       = "STUCK" // killed and still there
	CodeTimeout     = "TIMEOUT"
	CodeNoBlob      = "NO_BLOB" // a template or list has not arrived
	CodeInvalid     = "INVALID" // it can never work as it is
	CodeFillFailed  = "FILL_FAILED"
	CodeNotSeen     = "NOT_SEEN" // carried out, and its effect does not show
	CodeFailed      = "FAILED"
	CodeUnknownStep = "UNKNOWN_ACTION"
)

// stepError is a failure with a code of its own.
type stepError struct {
	code string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func failf(code, format string, args ...any) error {
	return &stepError{code, fmt.Errorf(format, args...)}
}

var errorCodes = []struct {
	err  error
	code string
}{
	{host.ErrMissing, CodeMissing},
	{host.ErrNotDirectory, CodeMissing},
	{host.ErrOutsideGrant, CodeForbidden},
	{host.ErrForbidden, CodeForbidden},
	{host.ErrOutsideParent, CodeForbidden},
	{host.ErrBadPath, CodeInvalid},
	{host.ErrNotAnswering, CodeTimeout},
	{host.ErrLocationNotMounted, CodeNotMounted},
	{host.ErrNotMounted, CodeNotMounted},
	{host.ErrNoCopy, CodeMissing},
	{host.ErrBusy, CodeBusy},
	{nfs.ErrAccessDenied, CodeDenied},
	{nfs.ErrBusy, CodeBusy},
	{nfs.ErrForeign, CodeBusy},
	{nfs.ErrIdentity, CodeNotMounted},
	{runtime.ErrInvalid, CodeInvalid},
	{runtime.ErrStuck, CodeStuck},
	{errNoBlob, CodeNoBlob},
	{context.DeadlineExceeded, CodeTimeout},
}

// codeOf classifies a failure once (style.md).
func codeOf(err error) string {
	var own *stepError
	if errors.As(err, &own) {
		return own.code
	}
	for _, c := range errorCodes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeFailed
}
