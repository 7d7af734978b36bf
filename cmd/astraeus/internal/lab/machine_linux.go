package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"astraeus.io/astraeus/nodeexec"
	"astraeus.io/astraeus/nodeexec/host"
	nfslab "astraeus.io/astraeus/nodeexec/nfs/lab"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/nodeexec/runtime/process"
)

// workerGrace is how long a worker may take to end when its machine is taken down.
const workerGrace = 3 * time.Second

// machineMain is one machine: an agent over the link's socket in the working
// directory. SIGTERM ends the agent and leaves workers and mounts, as a restart
// of a daemon would; SIGINT takes the whole machine down.
func machineMain(arg string) error {
	var conf machineConf
	if err := json.Unmarshal([]byte(arg), &conf); err != nil {
		return fmt.Errorf("machine configuration: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	m, err := newMachine(layout{dir}, conf)
	if err != nil {
		return err
	}
	down := make(chan os.Signal, 1)
	signal.Notify(down, unix.SIGINT)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	takeDown := make(chan bool, 1)
	go func() {
		select {
		case <-down:
			takeDown <- true
			cancel()
		case <-ctx.Done():
			takeDown <- false
		}
	}()
	runErr := m.agent.Run(ctx)
	cancel()
	if <-takeDown {
		return errors.Join(runErr, m.takeDown())
	}
	return runErr
}

type machineProcess struct {
	agent  *nodeexec.Agent
	engine runtime.Engine
	work   string // real path of the work root
}

func newMachine(at layout, conf machineConf) (*machineProcess, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	root := at.root(conf.Name)
	h, err := host.New(host.Options{Root: root, Shared: conf.Shared, WorkRoot: workRoot, StateDir: stateDir})
	if err != nil {
		return nil, err
	}
	engine, err := process.New(process.Options{StateDir: filepath.Join(root, stateDir, "engine"), Logger: log})
	if err != nil {
		return nil, err
	}
	shares, err := nfslab.New(nfslab.Options{Machine: conf.Name, WorkRoot: workRoot, Host: h, Addresses: h.Addresses, Peer: nfslab.PeersFile(at.peers())})
	if err != nil {
		return nil, err
	}
	agent, err := nodeexec.New(nodeexec.Config{
		Machine: conf.Name, StateDir: filepath.Join(root, stateDir), WorkRoot: workRoot, Address: conf.Address,
		Host: nodeexec.OnHost(h), Shares: shares, Engine: engine, Dial: dial, ResolvConf: filepath.Join(root, "etc/resolv.conf"), ReportEvery: 2 * time.Second, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &machineProcess{agent: agent, engine: engine, work: filepath.Join(root, workRoot)}, nil
}

// dial connects to the link's socket, which is named relative to the lab's directory.
func dial(context.Context) (grpc.ClientConnInterface, error) {
	return grpc.NewClient("unix:"+socketName, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// takeDown stops the machine's workers and unmounts what its agent mounted.
func (m *machineProcess) takeDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), agentGrace-2*time.Second)
	defer cancel()
	listing, err := m.engine.List(ctx)
	errs := []error{err}
	stopped := make(chan error)
	running := 0
	for _, worker := range listing.Workers {
		if worker.State == runtime.Exited {
			continue
		}
		running++
		go func() { stopped <- m.engine.Stop(ctx, worker.ID, workerGrace) }()
	}
	for range running {
		errs = append(errs, <-stopped)
	}
	return errors.Join(append(errs, m.engine.Close(), unmountBelow(m.work))...)
}
