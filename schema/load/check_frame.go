package load

import (
	"cmp"
	"net/netip"
	"strings"

	"astraeus.io/astraeus/schema"
)

func (r *reader) checkCluster(s *schema.ClusterSpec) {
	if s.DNSDomain != "" {
		for label := range strings.SplitSeq(s.DNSDomain, ".") {
			if schema.DNSNameProblem(label) != "" {
				r.fail("spec.dns_domain", sayDomain)
				break
			}
		}
	}
	r.checkPrefixes("spec.path_policy.allowed", s.PathPolicy.Allowed)
	r.checkPrefixes("spec.path_policy.denied", s.PathPolicy.Denied)
	full := *s
	full.Normalize()
	if full.Eviction.StopPercent <= full.Eviction.StartPercent {
		r.fail("spec.eviction.stop_percent", sayStopAbove)
	}
	if full.ReplaceAfter < full.DownAfter {
		r.fail("spec.replace_after", sayReplaceAfter)
	}
}

func (r *reader) checkPrefixes(field string, prefixes []string) {
	for i, p := range prefixes {
		r.failIf(each(field, i), schema.AbsolutePathProblem(p))
	}
}

// checkMachine judges the shape only; what the machine reports comes later (D-31).
func (r *reader) checkMachine(s *schema.MachineSpec) {
	r.checkAddress("spec.address", s.Address)
	if s.NodeNetwork != "" {
		p, err := netip.ParsePrefix(s.NodeNetwork)
		if err != nil || !p.Addr().Is4() || p.Bits() != 24 || p.Masked() != p {
			r.fail("spec.node_network", sayNodeNetwork)
		}
	}
	if s.DataLocation != nil {
		r.failIf("spec.data_location.path", schema.AbsolutePathProblem(s.DataLocation.Path))
	}
	for i, port := range s.RDMA {
		r.checkAddress(each("spec.rdma", i)+".address", port.Address)
	}
	r.checkPrefixes("spec.allowed_volume_prefixes", s.AllowedVolumePrefixes)
}

func (r *reader) checkAddress(field, address string) {
	if address == "" {
		return
	}
	if a, err := netip.ParseAddr(address); err != nil || a.Zone() != "" || a.IsUnspecified() {
		r.fail(field, sayAddress)
	}
}

func (r *reader) checkWorkspace(s *schema.WorkspaceSpec) {
	if s.Namespace != "" && !namespace.MatchString(s.Namespace) {
		r.fail("spec.namespace", sayNamespaceForm)
	}
	at := func(i int) string { return each("spec.members", i) + ".user" }
	for i, m := range s.Members {
		if strings.TrimSpace(m.User) == "" {
			r.fail(at(i), sayRequired)
		}
	}
	r.unique(len(s.Members), at, func(i int) string { return s.Members[i].User })
}

func (r *reader) checkGrant(s *schema.HostPathGrantSpec) {
	if s.Workspace == "" {
		r.fail("spec.workspace", sayRequired)
	}
	r.checkPrefixes("spec.paths", s.Paths)
}

// checkDeletion allows exactly one target.
func (r *reader) checkDeletion(s *schema.DeletionSpec) {
	targets := 0
	for _, name := range []string{s.Drive, s.Volume, s.Run, s.ReplicaGroup, s.Endpoint, s.Model} {
		if name != "" {
			targets++
		}
	}
	if s.Allow != nil {
		targets++
	}
	if targets != 1 {
		r.failChoice("spec", sayDeletionOne, "drive", "volume", "run", "replica_group", "endpoint", "model", "allow")
	}
	if s.Force && s.Drive == "" {
		r.fail("spec.force", sayForceDrive)
	}
}

// checkVolume judges what V-1 to V-3 say of the record alone; the path policy
// is the planner's, because grants widen it.
func (r *reader) checkVolume(s *schema.VolumeSpec) {
	r.failIf("spec.host_path", schema.ContainerPathProblem(s.HostPath))
	if len([]rune(s.Description)) > 1024 {
		r.fail("spec.description", sayDescription)
	}
	switch {
	case s.Shared && s.NodeID != "":
		r.fail("spec.node_id", saySharedNode)
	case !s.Shared && s.NodeID == "":
		r.fail("spec.node_id", sayNodeIDNeeded)
	}
}

func (r *reader) checkModel(s *schema.ModelSpec) {
	r.checkFill("spec.fill", s.Fill)
	if s.MountPath != "" {
		r.failIf("spec.mount_path", schema.ContainerPathProblem(s.MountPath))
	}
}

// checkEndpoint wants exactly one target (N-1).
func (r *reader) checkEndpoint(s *schema.EndpointSpec) {
	if (s.Run == "") == (s.ReplicaGroup == "") {
		r.failChoice("spec", sayEndpointOne, "run", "replica_group")
	}
	for field, name := range map[string]string{"spec.run": s.Run, "spec.replica_group": s.ReplicaGroup} {
		if name != "" {
			r.checkDNSName(field, cmp.Or(strings.TrimPrefix(field, "spec."), field), name)
		}
	}
	r.checkHealth("spec.health_check", s.HealthCheck, s.Port)
}

func (r *reader) checkHealth(field string, h *schema.HealthCheck, port int) {
	if h == nil {
		return
	}
	if port == 0 {
		r.fail(field, sayCheckPort)
	}
	if h.TCP == (h.HTTP != nil) {
		r.failChoice(field, sayCheckOne, "tcp", "http")
	}
	if h.HTTP != nil && !strings.HasPrefix(h.HTTP.Path, "/") {
		r.fail(field+".http.path", sayNotAbsolute)
	}
}
