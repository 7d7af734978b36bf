package main

import (
	"context"
	"errors"
)

// Exit codes (conventions.md).
const (
	exitOK          = 0
	exitError       = 1
	exitChanges     = 2 // changes are pending; only with --detailed-exitcode
	exitInvalid     = 3 // the desired state is invalid
	exitStale       = 4 // the saved plan does not fit any more
	exitPartly      = 5 // applied in part
	exitWaiting     = 6 // still waiting at --timeout
	exitInterrupted = 130
)

// exitStatus ends a command with a code. err may be nil: the view has then said
// all there is to say.
type exitStatus struct {
	code int
	err  error
}

func (e *exitStatus) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitStatus) Unwrap() error { return e.err }

// exitWith ends with a code and nothing more to say.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitStatus{code: code}
}

// codeOf is the exit code of a command's result.
func codeOf(ctx context.Context, err error) int {
	var status *exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return status.code
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitError
}
