package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"astraeus.io/astraeus/dnszone"
	"astraeus.io/astraeus/nodeexec/host"
	"astraeus.io/astraeus/nodeexec/nfs"
	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// Environment of every worker (N-8) besides its template's.
const (
	EnvRank      = "RANK"
	EnvWorldSize = "WORLD_SIZE"
	EnvLeader    = "ASTRAEUS_LEADER_ADDRESS"
	EnvMaster    = "MASTER_ADDR"
	EnvRun       = "ASTRAEUS_RUN"
	EnvWorker    = "ASTRAEUS_WORKER"
	EnvMachine   = "ASTRAEUS_MACHINE"
)

// startWorker re-checks everything the worker will see and starts it from the
// descriptors that were checked (D-21).
func (a *Agent) startWorker(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	w := findWorker(t, workerIDOf(step))
	if w == nil {
		return errGone
	}
	var template schema.TaskTemplate
	if err := a.blobs.decode(w.Template, &template); err != nil {
		return fmt.Errorf("task template: %w", err)
	}
	id := targetID(w)
	// Written before any copy is looked at: from here on nothing removes it.
	if err := a.uses.put(id, usesOf(w), a.cfg.Now()); err != nil {
		return err
	}
	a.cfg.CrashPoint(CrashUseRecorded)
	if err := a.launch(ctx, t, w, template, id); err != nil {
		dropErr := a.uses.drop(func(other string) bool { return other == id })
		return errors.Join(err, dropErr)
	}
	a.cfg.CrashPoint(CrashWorkerStarted)
	a.markUsed(w)
	return nil
}

func (a *Agent) launch(ctx context.Context, t *schema.Assignment, w *schema.WorkerTarget, template schema.TaskTemplate, id string) error {
	mounts, release, err := a.bindAll(ctx, t, w)
	defer release()
	if err != nil {
		return err
	}
	spec := runtime.Spec{
		ID: id, Labels: workerLabel(w).labels(),
		Command: template.Command, Args: template.Args, Env: a.workerEnv(w, template.Env),
		Files: a.files(t, w, template), Mounts: mounts, Hostname: w.Name,
		LogDir: filepath.Join(a.cfg.StateDir, LogsDir),
		CPU:    w.CPUCores, MemoryBytes: w.MemoryBytes, GPUs: w.GPUs,
	}
	if w.StopIfAwayAfter > 0 && runtime.StopsAway(a.cfg.Engine) {
		if a.contact.away(w.StopIfAwayAfter.Std()) {
			return failf(CodeBusy, "waiting for the controller to say that it hears this machine")
		}
		spec.StopIfAway, spec.Contact = w.StopIfAwayAfter.Std(), a.contact.file
	}
	return a.cfg.Engine.Start(ctx, spec)
}

func configFiles(t schema.TaskTemplate) []runtime.File {
	files := make([]runtime.File, len(t.ConfigFiles))
	for i, f := range t.ConfigFiles {
		files[i] = runtime.File{Path: f.Path, Content: []byte(f.Content)}
	}
	return files
}

// resolvConf is where a worker's resolver is configured (N-7).
const resolvConf = "/etc/resolv.conf"

// files are the worker's config files. On the node network they include its
// resolv.conf, unless the run brings one (N-7).
func (a *Agent) files(t *schema.Assignment, w *schema.WorkerTarget, template schema.TaskTemplate) []runtime.File {
	files := configFiles(template)
	gateway, err := netip.ParseAddr(w.Resolver)
	own := slices.ContainsFunc(files, func(f runtime.File) bool { return schema.CleanPath(f.Path) == resolvConf }) ||
		slices.ContainsFunc(w.Mounts, func(m schema.BindTarget) bool { return schema.CleanPath(m.Target) == resolvConf })
	if err != nil || own || t.Names == nil { // without a resolver it keeps the machine's
		return files
	}
	return append(files, runtime.File{Path: resolvConf, Content: []byte(dnszone.ResolvConf(gateway, w.Run.Namespace, t.Names.Domain))})
}

func workerLabel(w *schema.WorkerTarget) label {
	return label{Run: w.Run, Template: w.Template, WorldSize: w.WorldSize, Worker: schema.Worker{
		Run: w.Run.Scoped(), RunUID: w.RunUID, Generation: w.Generation, Attempt: w.Attempt, Name: w.Name,
		Group: w.Group, Rank: w.Rank, Index: w.Index, GPUs: w.GPUs, Address: w.Address, Uses: usesOf(w),
	}}
}

// usesOf are the drives and volumes of a worker; host paths in the old form
// have no id and nothing here removes them.
func usesOf(w *schema.WorkerTarget) []schema.Use {
	uses := []schema.Use{}
	for _, m := range w.Mounts {
		use := schema.Use{UID: m.UID, Source: m.Source, Mode: schema.ReadWrite}
		if m.ReadOnly {
			use.Mode = schema.ReadOnly
		}
		if m.UID != "" && !slices.Contains(uses, use) {
			uses = append(uses, use)
		}
	}
	return uses
}

// workerEnv is the template's environment with ours over it, so that a worker's
// place in its run is always the assigned one. MASTER_ADDR alone may be the
// template's: frameworks are told another meeting point that way.
func (a *Agent) workerEnv(w *schema.WorkerTarget, template map[string]string) []string {
	env := map[string]string{}
	maps.Copy(env, template)
	if _, own := template[EnvMaster]; !own {
		env[EnvMaster] = w.Leader
	}
	env[EnvRank] = strconv.Itoa(w.Rank)
	env[EnvWorldSize] = strconv.Itoa(w.WorldSize)
	env[EnvLeader] = w.Leader
	env[EnvRun] = w.Run.Scoped()
	env[EnvWorker] = w.Name
	env[EnvMachine] = a.cfg.Machine
	return envList(env)
}

func envList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

// bindAll opens everything the worker mounts. release closes what was opened,
// also after an error.
func (a *Agent) bindAll(ctx context.Context, t *schema.Assignment, w *schema.WorkerTarget) (mounts []runtime.Mount, release func(), err error) {
	var open []*host.Dir
	release = func() {
		for _, d := range open {
			_ = d.Close()
		}
	}
	for _, b := range w.Mounts {
		dir, err := a.bindSource(ctx, t, w, b)
		if err == nil {
			open = append(open, dir)
			if b.SubPath != "" {
				if dir, err = a.cfg.Host.OpenBeneath(dir, b.SubPath); err == nil {
					open = append(open, dir)
				}
			}
		}
		if err != nil {
			return nil, release, fmt.Errorf("mount %s: %w", b.Target, err)
		}
		mounts = append(mounts, runtime.Mount{Source: dir.File, Target: b.Target, ReadOnly: b.ReadOnly})
	}
	return mounts, release, nil
}

// bindSource opens one source by descriptor after every check of its kind.
func (a *Agent) bindSource(ctx context.Context, t *schema.Assignment, w *schema.WorkerTarget, b schema.BindTarget) (*host.Dir, error) {
	who := "worker " + targetID(w)
	switch b.From {
	case schema.BindCopy:
		return a.copies().Open(b.UID, b.Path)
	case schema.BindClaim:
		return a.cfg.Shares.OpenMount(ctx, nfs.Claim{Drive: b.Drive, UID: b.UID, Source: b.Source, Client: a.cfg.Machine})
	case schema.BindDir:
		dir, err := a.directory(ctx, t, who, b.Path, b.Grant, false)
		return a.placed(b, dir, err)
	case schema.BindVolume:
		dir, err := a.volume(ctx, t, who, b)
		return a.placed(b, dir, err)
	}
	return nil, failf(CodeInvalid, "this machine's agent cannot bind from %q", b.From)
}

// volume opens a volume's directory. No link may lead out of the prefix that lets
// it through, nor, within a grant that is wide, to what is denied (V-4).
func (a *Agent) volume(ctx context.Context, t *schema.Assignment, who string, b schema.BindTarget) (*host.Dir, error) {
	if b.Grant == "" {
		return nil, failf(CodeForbidden, "volume path %s: nothing lets it through any more", b.Path)
	}
	if err := volumeAllowed(t, b.Path, b.Grant); err != nil {
		return nil, err
	}
	dir, err := a.openDir(ctx, who, b.Path, b.Grant, a.forbidden(t))
	if err != nil {
		return nil, err
	}
	if err := volumeAllowed(t, dir.Path, b.Grant); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("volume path %s leads elsewhere: %w", b.Path, err)
	}
	return dir, nil
}

// placed checks that the directory is on the filesystem it was first used on.
func (a *Agent) placed(b schema.BindTarget, dir *host.Dir, err error) (*host.Dir, error) {
	if err != nil {
		return nil, err
	}
	if b.UID == "" {
		return dir, nil
	}
	if err := a.places.check(placeOf(b.UID, b.Source, b.Path), dir); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// volumeAllowed judges a volume's path by the one policy (V-4): below what lets it
// through for the cluster, below the machine's own list where it has one, and never
// under a denied prefix.
func volumeAllowed(t *schema.Assignment, path, grant string) error {
	problem := schema.VolumePathProblem(path, []string{grant}, t.DeniedVolumePrefixes)
	if problem == "" && t.AllowedVolumePrefixes != nil {
		if problem = schema.VolumePathProblem(path, t.AllowedVolumePrefixes, nil); problem != "" {
			problem += " of this machine (allowed_volume_prefixes)"
		}
	}
	if problem != "" {
		return failf(CodeForbidden, "volume path %s: %s", path, problem)
	}
	return nil
}

// markUsed notes the time of use in the sidecars (D-70); the use record guards
// the copies meanwhile, so that a failure here only makes the time older.
func (a *Agent) markUsed(w *schema.WorkerTarget) {
	for _, m := range w.Mounts {
		if m.From != schema.BindCopy {
			continue
		}
		if err := a.copies().MarkUsed(m.UID, a.cfg.Now()); err != nil {
			a.log.Warn("the time of use cannot be kept", "drive", m.Drive, "error", err)
		}
	}
}
