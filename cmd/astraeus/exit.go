package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// exitMeanings are said in every command's help.
var exitMeanings = map[int]string{
	exitOK: "done, or nothing to do", exitError: "an error", exitChanges: "changes are pending (--detailed-exitcode)",
	exitInvalid: "the files are invalid", exitStale: "the saved plan does not fit any more",
	exitPartly:  "reached in part: something is held back, has failed for good, or waits for what does not come by itself",
	exitWaiting: "still waiting at --timeout", exitInterrupted: "interrupted",
}

// commandExits are the exit codes of the commands that have more than 0, 1 and 130.
var commandExits = map[string][]int{
	"validate": {exitOK, exitError, exitInvalid, exitInterrupted},
	"plan":     {exitOK, exitError, exitChanges, exitInvalid, exitInterrupted},
	"apply":    {exitOK, exitError, exitInvalid, exitStale, exitPartly, exitWaiting, exitInterrupted},
	"lab":      {exitOK, exitError, exitInvalid, exitPartly, exitWaiting, exitInterrupted},
	"wait":     {exitOK, exitError, exitWaiting, exitInterrupted},
}

// exitHelp lists a command's exit codes.
func exitHelp(command string) string {
	codes := commandExits[command]
	if codes == nil {
		codes = []int{exitOK, exitError, exitInterrupted}
	}
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, code := range codes {
		fmt.Fprintf(&b, "\n  %3d  %s", code, exitMeanings[code])
	}
	return b.String()
}

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
