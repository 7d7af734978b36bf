package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	nfslab "astraeus.io/astraeus/nodeexec/nfs/lab"
)

// roomMain reads a roomConf a line from standard input and keeps the machines
// as it says. The end of the input is the end of the lab, also when the
// controller was killed.
func roomMain(dir string) error {
	network, err := newNetwork()
	if err != nil {
		return err
	}
	room := &room{layout: layout{dir}, network: network, machines: map[string]*machine{},
		log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	defer room.close()
	return room.follow(bufio.NewReader(os.Stdin))
}

// retryAfter is when what did not work is tried again.
const retryAfter = 2 * time.Second

// follow keeps the room as the newest line says until the input ends.
func (r *room) follow(in *bufio.Reader) error {
	lines, ended := make(chan []byte), make(chan error, 1)
	go readLines(in, lines, ended)
	var conf roomConf
	var again <-chan time.Time
	told := ""
	for {
		select {
		case err := <-ended:
			return err
		case line := <-lines:
			conf = roomConf{}
			if err := json.Unmarshal(line, &conf); err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
		case <-again:
		}
		again = nil
		problem := ""
		if err := r.apply(conf); err != nil {
			problem, again = err.Error(), time.After(retryAfter)
		}
		if problem != told && problem != "" {
			r.log.Error("the room is not as it should be", "error", problem)
		}
		told = problem
	}
}

func readLines(in *bufio.Reader, lines chan<- []byte, ended chan<- error) {
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			ended <- nil
			return
		case err != nil:
			ended <- fmt.Errorf("read configuration: %w", err)
			return
		}
		lines <- line
	}
}

type room struct {
	layout
	network  *network
	machines map[string]*machine
	log      *slog.Logger
}

// machine is one running machine of the room.
type machine struct {
	port    *port
	stop    context.CancelFunc
	stopped chan struct{}

	mu    sync.Mutex
	conf  machineConf
	agent *os.Process // nil between two lives of the agent
}

// reconfigure keeps the machine and gives it a new configuration; its agent is
// started again, and its workers stay, where the agent has to know.
func (m *machine) reconfigure(conf machineConf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := slices.Equal(m.conf.Shared, conf.Shared) && m.conf.Address == conf.Address
	m.conf = conf
	if !known && m.agent != nil {
		_ = m.agent.Signal(unix.SIGTERM)
	}
}

func (m *machine) current() machineConf {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conf
}

func (m *machine) setAgent(p *os.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agent = p
}

// apply makes the room's machines those of conf. Machines that fail do not stop
// the others.
func (r *room) apply(conf roomConf) error {
	wanted := map[string]bool{}
	var errs []error
	for i := range conf.Machines {
		wanted[conf.Machines[i].Name] = true
		if conf.Machines[i].Address == "" {
			// RFC 2544's range: never routed, and not one that a repository declares.
			conf.Machines[i].Address = fmt.Sprintf("198.18.%d.%d", i/250, i%250+1)
		}
	}
	for name, m := range r.machines {
		if !wanted[name] {
			errs = append(errs, m.end())
			delete(r.machines, name)
		}
	}
	if err := r.writePeers(conf); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, mc := range conf.Machines {
		if err := r.keep(mc); err != nil {
			errs = append(errs, fmt.Errorf("machine %s: %w", mc.Name, err))
		}
	}
	return errors.Join(errs...)
}

// writePeers tells agents where the other machines' roots are: what a network
// mount of the lab binds from.
func (r *room) writePeers(conf roomConf) error {
	peers := map[string]nfslab.Peer{}
	for _, mc := range conf.Machines {
		peers[mc.Address] = nfslab.Peer{Machine: mc.Name, Root: r.root(mc.Name), WorkRoot: workRoot}
	}
	return nfslab.WritePeers(r.peers(), peers)
}

// keep starts a machine or brings a running one in line. One that is not furnished
// as it should be is up nevertheless: what needs the rest waits.
func (r *room) keep(conf machineConf) error {
	if err := r.build(conf.Name); err != nil {
		return err
	}
	return errors.Join(r.furnish(conf), r.run(conf))
}

func (r *room) run(conf machineConf) error {
	if old := r.machines[conf.Name]; old != nil {
		if was := old.current(); was.Address != conf.Address || was.NodeNetwork != conf.NodeNetwork {
			if err := old.port.readdress(conf.Address, conf.NodeNetwork); err != nil {
				return err
			}
		}
		old.reconfigure(conf)
		return nil
	}
	port, err := r.network.join(conf.Address, conf.NodeNetwork)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &machine{conf: conf, port: port, stop: cancel, stopped: make(chan struct{})}
	r.machines[conf.Name] = m
	go func() {
		defer close(m.stopped)
		r.attend(ctx, m)
	}()
	return nil
}

// Pauses between two lives of an agent: one that cannot start is not tried in a
// hot loop, one that was killed is back at once.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
)

// attend keeps a machine's agent running until the machine is stopped, as an
// init system would.
func (r *room) attend(ctx context.Context, m *machine) {
	pause := firstPause
	for ctx.Err() == nil {
		started := time.Now()
		err := r.runAgent(ctx, m)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("an agent ended and is started again", "machine", m.current().Name, "error", err)
		}
		if err == nil || time.Since(started) > mostPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

func (r *room) runAgent(ctx context.Context, m *machine) error {
	mc := m.current()
	conf, err := json.Marshal(mc)
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(r.machine(mc.Name), "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", stageMachine, string(conf))
	cmd.Dir = r.dir // the link's socket is named relative to it
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// SIGINT takes the machine down, SIGTERM ends the agent alone.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = agentGrace
	if err := m.port.do(cmd.Start); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	m.setAgent(cmd.Process)
	defer m.setAgent(nil)
	return cmd.Wait()
}

// agentGrace is how long an agent may take to stop its workers and take down
// its mounts when the lab ends.
const agentGrace = 20 * time.Second

func (m *machine) end() error {
	m.stop()
	<-m.stopped
	return m.port.leave()
}

func (r *room) close() {
	var wait sync.WaitGroup
	for _, m := range r.machines {
		wait.Go(func() {
			if err := m.end(); err != nil {
				r.log.Warn("a machine did not end cleanly", "machine", m.current().Name, "error", err)
			}
		})
	}
	wait.Wait()
}
