package statusapi

import (
	"cmp"
	"slices"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// Volume is a registered host path (V-10).
type Volume struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Namespace   string `json:"namespace,omitempty"`
	HostPath    string `json:"host_path"`
	Shared      bool   `json:"shared"`
	NodeID      string `json:"node_id"`
	CapacityGB  int64  `json:"capacity_gb"`
	Description string `json:"description"`
	Owner       string `json:"owner,omitempty"`
}

// VolumeDetail is a volume with who refers to it.
type VolumeDetail struct {
	Volume     Volume            `json:"volume"`
	References []VolumeReference `json:"references"`
	InUse      bool              `json:"in_use"`
	// ActiveReferenceCount counts unseen references too.
	ActiveReferenceCount int          `json:"active_reference_count"`
	HiddenReferenceCount int          `json:"hidden_reference_count"`
	Refused              *schema.Hold `json:"refused,omitempty"`
}

// VolumeReference is one run that mounts a volume.
type VolumeReference struct {
	TaskID     string           `json:"task_id"`
	TaskName   string           `json:"task_name"`
	TaskStatus planner.RunPhase `json:"task_status"`
	UserID     string           `json:"user_id"`
	GroupID    string           `json:"group_id"`
	Active     bool             `json:"active"`
}

// maxReferences is the documents' cap on references[].
const maxReferences = 500

func listVolumes(r *request) (any, error) {
	var out []Volume
	for _, o := range r.index[schema.KindVolume] {
		if r.scope.covers(o.Object.Key) {
			out = append(out, volumeOf(o))
		}
	}
	// Names may repeat over workspaces and ids may still be missing: both make the order.
	slices.SortFunc(out, func(a, b Volume) int { return cmp.Compare(volumeOrder(a), volumeOrder(b)) })
	return page(r.query, out, volumeOrder)
}

func volumeOrder(v Volume) string { return v.Namespace + "\x00" + v.Name }

func volumeOf(o *schema.AcceptedObject) Volume {
	v := Volume{ID: o.Object.Metadata.ID, Name: o.Object.Key.Name, Namespace: o.Object.Key.Namespace, Owner: o.Object.Metadata.Owner}
	if spec, ok := o.Object.Spec.(*schema.VolumeSpec); ok {
		v.HostPath, v.Shared, v.NodeID, v.CapacityGB, v.Description = spec.HostPath, spec.Shared, spec.NodeID, spec.CapacityGB, spec.Description
	}
	return v
}

func oneVolume(r *request) (any, error) {
	for _, o := range r.index[schema.KindVolume] {
		if o.Object.Metadata.ID != "" && o.Object.Metadata.ID == r.name && r.scope.covers(o.Object.Key) {
			return r.volume(o), nil
		}
	}
	o, err := r.find(schema.KindVolume)
	if err != nil {
		return nil, err
	}
	return r.volume(o), nil
}

func (r *request) volume(o *schema.AcceptedObject) VolumeDetail {
	d := VolumeDetail{Volume: volumeOf(o), References: []VolumeReference{}, Refused: refusedHold(o)}
	for _, run := range r.index[schema.KindRun] {
		spec, ok := run.Object.Spec.(*schema.RunSpec)
		if !ok || run.Object.Key.Namespace != o.Object.Key.Namespace || !r.mounts(run.Object.Key, spec, d.Volume) {
			continue
		}
		ref := VolumeReference{TaskID: run.UID, TaskName: run.Object.Key.Name, UserID: run.Object.Metadata.Owner, Active: true}
		if v, ok := r.derived.Run(run.Object.Key); ok {
			ref.TaskStatus = v.Phase
			ref.Active = v.Phase != planner.RunSucceeded && v.Phase != planner.RunFailed
		}
		if ref.Active {
			d.ActiveReferenceCount++
		}
		if len(d.References) < maxReferences {
			d.References = append(d.References, ref)
		}
	}
	d.InUse = d.ActiveReferenceCount > 0
	return d
}

// mounts looks at the accepted templates and at those workers were started with (V-8).
func (r *request) mounts(key schema.Key, accepted *schema.RunSpec, v Volume) bool {
	specs := []*schema.RunSpec{accepted}
	if p, ok := r.Input.Placed[key]; ok && p.Spec != nil {
		specs = append(specs, p.Spec)
	}
	for _, spec := range specs {
		for _, group := range spec.Groups() {
			for _, m := range group.TaskTemplate.Volumes {
				if m.VolumeID != "" && m.VolumeID == v.ID || m.VolumeID == "" && m.Name != "" && m.Name == v.Name {
					return true
				}
			}
		}
	}
	return false
}
