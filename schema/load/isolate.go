package load

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"astraeus.io/astraeus/schema"
)

// A CUE evaluation cannot be cancelled, so it runs in a child process that is
// killed and replaced when it takes too long or too much memory.

// childEnv marks the re-executed helper.
const childEnv = "ASTRAEUS_SCHEMA_LOAD_CHILD"

// childExitMemory is the child's exit code when it outgrew its memory.
const childExitMemory = 37

// maxChildJob is when a child gives up by itself; its parent kills it much earlier.
const maxChildJob = time.Minute

var childReady atomic.Bool

// MaybeChild makes this process an evaluating child when it was started as one;
// it then never returns. Call it first in main and in TestMain: without it
// evaluations run in this process, where one that does not end keeps a goroutine.
func MaybeChild() {
	if os.Getenv(childEnv) == "" {
		childReady.Store(true)
		return
	}
	debug.SetMaxStack(256 << 20)
	debug.SetMemoryLimit(maxChildHeap * 3 / 4)
	go watch()
	serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

// jobStarted is when the child's job began, in Unix nanoseconds; 0 while idle.
var jobStarted atomic.Int64

// watch ends the process before it takes the machine's memory, and when its
// parent is gone without having killed it.
func watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for range time.Tick(5 * time.Millisecond) {
		metrics.Read(sample)
		if sample[0].Value.Uint64()+sample[1].Value.Uint64() > maxChildHeap {
			os.Exit(childExitMemory)
		}
		if at := jobStarted.Load(); at != 0 && time.Since(time.Unix(0, at)) > maxChildJob {
			os.Exit(1)
		}
	}
}

func serve(in io.Reader, out io.Writer) {
	dec := json.NewDecoder(bufio.NewReader(in))
	enc := json.NewEncoder(out)
	var e evaluator
	for {
		var j job
		if dec.Decode(&j) != nil {
			return
		}
		jobStarted.Store(time.Now().UnixNano())
		err := enc.Encode(e.do(j))
		jobStarted.Store(0)
		if err != nil {
			return
		}
	}
}

// worker runs jobs, one at a time, each within the time given.
type worker struct {
	command func() (*exec.Cmd, error) // nil: in this process
	timeout time.Duration
	child   *child
	local   *evaluator
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// startTimeout is how long a child may take until it answers at all.
const startTimeout = 20 * time.Second

func selfCommand() (*exec.Cmd, error) {
	// This name stays right when the program's file is replaced by an upgrade.
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return exec.Command(self), nil
	}
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(name), nil
}

// do runs a job; the error is the context's.
func (w *worker) do(ctx context.Context, j job) (answer, error) {
	if w.command == nil {
		return w.doHere(ctx, j)
	}
	if w.child == nil {
		c, err := startChild(w.command)
		if err != nil {
			return failed(j, sayEvalStart(err)), nil
		}
		w.child = c
		// Starting is not the job's time: the first answer is waited for apart.
		if text, err := w.exchange(ctx, job{}, &answer{}, startTimeout); text != "" || err != nil {
			return failed(j, text), err
		}
	}
	var a answer
	text, err := w.exchange(ctx, j, &a, w.timeout)
	if text != "" || err != nil {
		return failed(j, text), err
	}
	return a, nil
}

// exchange sends a job to the child and takes its answer. When it does not come,
// the child is gone afterwards and the text says why.
func (w *worker) exchange(ctx context.Context, j job, a *answer, limit time.Duration) (text string, err error) {
	c := w.child
	done := make(chan error, 1)
	go func() {
		err := c.enc.Encode(j)
		if err == nil {
			err = c.dec.Decode(a)
		}
		done <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if err == nil {
			return "", nil
		}
		w.stop()
		if c.cmd.ProcessState != nil && c.cmd.ProcessState.ExitCode() == childExitMemory {
			return sayEvalMemory, nil
		}
		return sayEvalDied, nil
	case <-timer.C:
		w.stop()
		<-done
		return sayEvalTime(limit), nil
	case <-ctx.Done():
		w.stop()
		<-done
		return "", ctx.Err()
	}
}

// doHere is for a program that did not call MaybeChild.
func (w *worker) doHere(ctx context.Context, j job) (answer, error) {
	done := make(chan answer, 1)
	if w.local == nil {
		w.local = &evaluator{}
	}
	e := w.local
	go func() { done <- e.do(j) }()
	timer := time.NewTimer(w.timeout)
	defer timer.Stop()
	select {
	case a := <-done:
		return a, nil
	case <-timer.C:
		w.local = nil // the abandoned one may still be running in its context
		return failed(j, sayEvalTime(w.timeout)), nil
	case <-ctx.Done():
		w.local = nil
		return answer{}, ctx.Err()
	}
}

// failed is the answer when there is none. It need not be so the next time.
func failed(j job, text string) answer {
	return answer{
		gaveUp: true,
		Faults: []fault{{Pos: schema.Pos{File: j.Files[0].Name, Line: 1, Col: 1}, Code: schema.CodeUnreadable, Text: text}},
	}
}

func startChild(command func() (*exec.Cmd, error)) (*child, error) {
	cmd, err := command()
	if err != nil {
		return nil, err
	}
	// Nothing of this process's environment is a child's business.
	cmd.Env = append(cmd.Env, childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(bufio.NewReader(out))}
	return c, nil
}

// stop kills the child and waits until it is gone.
func (w *worker) stop() {
	if w.child == nil {
		return
	}
	c := w.child
	w.child = nil
	_ = c.cmd.Process.Kill()
	_ = c.in.Close()
	_ = c.cmd.Wait()
}
