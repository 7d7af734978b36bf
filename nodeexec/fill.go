package nodeexec

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"astraeus.io/astraeus/nodeexec/runtime"
	"astraeus.io/astraeus/schema"
)

// fillCopy runs a copy's fill as a worker with the copy at /drive (D-42): it
// starts the fill, or settles the one that has ended.
func (a *Agent) fillCopy(ctx context.Context, t *schema.Assignment, step schema.Step) error {
	target := findCopy(t, step.Args.UID)
	if target == nil || target.FillGeneration == 0 || a.copies() == nil {
		return errGone
	}
	listing, err := a.cfg.Engine.List(ctx)
	if err != nil {
		return err
	}
	look := &view{}
	look.takeEngine(listing, func(string) {})
	for i := range look.fills {
		if f := &look.fills[i]; f.live() && f.label.Fill.UID == target.UID {
			return errInProgress // an older generation is stopped by tidy
		}
	}
	if f := look.findFill(fillID(target.UID, target.FillGeneration)); f != nil {
		return a.settleFill(ctx, target, f)
	}
	if !look.engineKnown {
		return failf(CodeFailed, "the workers cannot be listed completely")
	}
	if err := a.startFill(ctx, target); err != nil {
		return err
	}
	return errInProgress
}

func (a *Agent) startFill(ctx context.Context, target *schema.CopyTarget) error {
	var template schema.TaskTemplate
	if err := a.blobs.decode(target.FillTemplate, &template); err != nil {
		return fmt.Errorf("fill template: %w", err)
	}
	dir, err := a.copies().Open(target.UID, "")
	if err != nil {
		return err
	}
	defer dir.Close()
	env := map[string]string{}
	maps.Copy(env, template.Env)
	env[EnvMachine] = a.cfg.Machine
	return a.cfg.Engine.Start(ctx, runtime.Spec{
		ID:      fillID(target.UID, target.FillGeneration),
		Labels:  label{Fill: &fillLabel{UID: target.UID, Generation: target.FillGeneration}}.labels(),
		Command: template.Command, Args: template.Args, Env: envList(env), Files: configFiles(template),
		Mounts: []runtime.Mount{{Source: dir.File, Target: schema.FillMount}}, Hostname: "fill",
		LogDir: filepath.Join(a.cfg.StateDir, LogsDir),
		CPU:    template.RequestedResources.CPUCores, MemoryBytes: template.RequestedResources.MemoryBytes,
	})
}

// settleFill writes the filled generation down, then forgets the fill; a crash
// in between finds it ended again.
func (a *Agent) settleFill(ctx context.Context, target *schema.CopyTarget, f *localWorker) error {
	verdict := error(nil)
	if f.worker.State != schema.WorkerSucceeded {
		verdict = failf(CodeFillFailed, "the fill failed: %s", f.worker.Reason)
	} else if marker, err := a.copies().HasFillMarker(target.UID); err != nil {
		return err
	} else if !marker {
		verdict = failf(CodeFillFailed, "the fill ended without writing %s", schema.FillMarker)
	}
	a.cfg.CrashPoint(CrashFillEnded)
	if verdict == nil {
		if err := a.copies().SetFilled(target.UID, target.FillGeneration); err != nil {
			return err
		}
	}
	if err := a.cfg.Engine.Remove(ctx, f.id); err != nil {
		return err
	}
	return verdict
}
