package load

import (
	"encoding/json"
	"strconv"
	"strings"

	"astraeus.io/astraeus/schema"
)

// maxMounts is V-5's.
const maxMounts = 32

func (r *reader) checkRun(s *schema.RunSpec) {
	name := r.d.meta.Name
	switch {
	case s.TaskTemplate == nil && len(s.WorkerGroups) == 0:
		r.failChoice("spec", sayRunNothing, "task_template", "worker_groups")
	case s.TaskTemplate != nil && len(s.WorkerGroups) > 0:
		r.fail("spec.worker_groups", sayRunBoth)
	}
	if s.TaskTemplate != nil {
		r.checkTemplate("spec.task_template", s.TaskTemplate)
		r.checkWorkerName("metadata.name", name, "", s.TaskTemplate)
	}
	r.checkGroups(s)
	r.checkGang("spec", s)
	r.checkAccesses("spec.external_accesses", s.ExternalAccesses)
	r.checkEgress(s.Network)
	if s.StopIfAwayAfter != 0 && s.StopIfAwayAfter.Std() < schema.MinStopIfAway {
		r.fail("spec.stop_if_away_after", sayStopIfAway)
	}
	if s.CheckpointPath != "" {
		r.failIf("spec.checkpoint_path", schema.ContainerPathProblem(s.CheckpointPath))
	}
	if s.DatasetPath != "" {
		r.failIf("spec.dataset_path", schema.ContainerPathProblem(s.DatasetPath))
	}
}

// checkGang bounds a run: its placement is one value of the store, so that all or
// none of it is placed, and holds the spec and every worker with its end.
func (r *reader) checkGang(at string, s *schema.RunSpec) {
	workers := 0
	for _, g := range s.Groups() {
		workers += max(g.TaskTemplate.RequestedResources.Machines, 1)
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return // what JSON cannot hold was said already
	}
	if most := (maxPlacementBytes - len(spec)) / placedWorkerBytes; workers > most {
		r.fail(at, sayGang(workers, most))
	}
}

func (r *reader) checkGroups(s *schema.RunSpec) {
	leader := s.LeaderGroup == ""
	for i := range s.WorkerGroups {
		g := &s.WorkerGroups[i]
		at := each("spec.worker_groups", i)
		if r.checkDNSName(at+".name", "group", g.Name) {
			r.checkWorkerName(at+".name", r.d.meta.Name, g.Name, &g.TaskTemplate)
		}
		r.checkTemplate(at+".task_template", &g.TaskTemplate)
		leader = leader || g.Name == s.LeaderGroup
	}
	r.unique(len(s.WorkerGroups), func(i int) string { return each("spec.worker_groups", i) + ".name" },
		func(i int) string { return s.WorkerGroups[i].Name })
	switch {
	case leader:
	case len(s.WorkerGroups) == 0:
		r.fail("spec.leader_group", sayLeaderAlone)
	default:
		r.fail("spec.leader_group", sayNoGroup(s.LeaderGroup))
	}
}

// checkWorkerName judges the longest derived worker name (N-9).
func (r *reader) checkWorkerName(field, run, group string, t *schema.TaskTemplate) {
	if schema.DNSNameProblem(run) != "" {
		return // said already
	}
	worker := schema.WorkerName(run, group, max(t.RequestedResources.Machines, 1)-1)
	r.checkDNSName(field, "worker name", worker)
}

func (r *reader) checkReplicaGroup(s *schema.ReplicaGroupSpec) {
	r.checkTemplate("spec.task_template", &s.TaskTemplate)
	r.checkGang("spec.task_template", &schema.RunSpec{TaskTemplate: &s.TaskTemplate})
	r.checkHealth("spec.health_check", s.HealthCheck, s.Port)
	r.checkEgress(s.Network)
	member := r.d.meta.Name + "-" + strconv.Itoa(max(s.Replicas, 1)-1)
	r.checkWorkerName("metadata.name", member, "", &s.TaskTemplate)
}

// checkEgress judges the names of a policy (N-5).
func (r *reader) checkEgress(n *schema.Network) {
	if n == nil || n.Egress == nil {
		return
	}
	for i, name := range n.Egress.Names {
		if problem := schema.EgressNameProblem(name); problem != "" {
			r.fail(each("spec.network.egress.names", i), sayEgressName(name, problem))
		}
	}
}

func (r *reader) checkTemplate(at string, t *schema.TaskTemplate) {
	machines := max(t.RequestedResources.Machines, 1)
	if gpus := t.RequestedResources.GPURequests.Count; gpus%machines != 0 {
		r.fail(at+".requested_resources.gpu_requests.count", sayGPUs(gpus, machines))
	}
	for name := range t.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.fail(at+".env."+name, sayEnvName)
		}
	}
	r.checkConfigFiles(at+".config_files", t.ConfigFiles)
	r.checkMounts(at, t)
	r.checkAccesses(at+".external_accesses", t.ExternalAccesses)
}

func (r *reader) checkConfigFiles(at string, files []schema.ConfigFile) {
	size := 0
	for i, f := range files {
		size += len(f.Path) + len(f.Content)
		r.failIf(each(at, i)+".path", schema.ContainerPathProblem(f.Path))
	}
	if size > maxConfigFileBytes {
		r.fail(at, sayConfigSize(size))
	}
	r.unique(len(files), func(i int) string { return each(at, i) + ".path" },
		func(i int) string { return schema.CleanPath(files[i].Path) })
}

// checkMounts is D-40 and V-5: every mount has a place of its own.
func (r *reader) checkMounts(at string, t *schema.TaskTemplate) {
	taken := map[string]string{}
	take := func(field, path, by string) {
		path = schema.CleanPath(path)
		if other := taken[path]; other != "" {
			r.fail(field, sayMountTwice(path, other))
			return
		}
		taken[path] = by
	}
	for i, ref := range t.DatavolumeRefs {
		field := each(at+".datavolume_refs", i)
		r.failIf(field+".name", schema.NameProblem(ref.Name))
		r.failIf(field+".sub_path", schema.RelativePathProblem(ref.SubPath))
		switch problem := schema.ContainerPathProblem(ref.MountPath); {
		case ref.MountPath == "": // the source's, which the planner knows
		case !strings.HasPrefix(ref.MountPath, "/"):
			r.failAs(schema.CodeInvalid, field+".mount_path", sayMountPath(ref.Name))
		case problem != "":
			r.fail(field+".mount_path", problem)
		default:
			take(field+".mount_path", ref.MountPath, "drive "+ref.Name)
		}
	}
	if len(t.Volumes) > maxMounts {
		r.fail(at+".volumes", sayTooManyMounts)
	}
	for i, v := range t.Volumes {
		field := each(at+".volumes", i)
		r.checkVolumeMount(field, v)
		if problem := schema.ContainerPathProblem(v.ContainerPath); problem != "" {
			r.fail(field+".container_path", problem)
			continue
		}
		take(field+".container_path", v.ContainerPath, "volumes["+strconv.Itoa(i)+"]")
	}
}

func (r *reader) checkVolumeMount(field string, v schema.VolumeMount) {
	if v.BoundNodeID != "" || r.given(field+".bound_node_id") {
		r.fail(field+".bound_node_id", sayBoundNode)
	}
	switch {
	case v.VolumeID != "" && v.Name != "":
		r.fail(field+".name", sayMountBoth)
	case v.VolumeID == "" && v.Name == "" && v.HostPath == "":
		r.failChoice(field, sayMountWhat, "volume_id", "name", "host_path")
	}
	if v.VolumeID != "" && !volumeID.MatchString(v.VolumeID) {
		r.fail(field+".volume_id", sayVolumeID)
	}
	if v.Name != "" {
		r.failIf(field+".name", schema.VolumeNameProblem(v.Name))
	}
	if v.HostPath != "" {
		r.failIf(field+".host_path", schema.ContainerPathProblem(v.HostPath))
	}
}

func (r *reader) checkAccesses(at string, list []schema.ExternalAccess) {
	for i, a := range list {
		r.checkDNSName(each(at, i)+".name", "external access", a.Name)
	}
	r.unique(len(list), func(i int) string { return each(at, i) + ".name" }, func(i int) string { return list[i].Name })
}
