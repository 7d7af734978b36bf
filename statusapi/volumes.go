package statusapi

import (
	"time"

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
	// Active: it counts as use (V-8).
	Active bool `json:"active"`
	// CreatedAt is when the run was first accepted; null when that is not known.
	CreatedAt *time.Time `json:"created_at"`
}

// maxReferences is the documents' cap on references[].
const maxReferences = 500

var volumes = &collection{
	word: "volumes", entries: entriesOf(schema.KindVolume),
	facts:  func(_ *state, e entry) any { return e.object },
	body:   func(_ *request, facts any) any { return volumeOf(facts.(*schema.AcceptedObject)) },
	manner: alike,
	filters: map[string]filter{
		"shared": byWordOf("true: only shared volumes; false: only those of one machine", func(_ *request, o *schema.AcceptedObject) string {
			if volumeOf(o).Shared {
				return "true"
			}
			return "false"
		}),
		"node_id":   byWordOf("only volumes bound to this machine", func(_ *request, o *schema.AcceptedObject) string { return volumeOf(o).NodeID }),
		"owner":     byOwner(declared),
		"workspace": byWorkspace(func(o *schema.AcceptedObject) schema.Key { return o.Object.Key }),
		labelFilter: byLabel(declared),
	},
}

// alike is plainly for collections whose bodies name nothing else.
func alike(*request, any) string { return "same" }

func declared(o *schema.AcceptedObject) *schema.Object { return o.Object }

func volumeOf(o *schema.AcceptedObject) Volume {
	v := Volume{ID: o.Object.Metadata.ID, Name: o.Object.Key.Name, Namespace: o.Object.Key.Namespace, Owner: o.Object.Metadata.Owner}
	if spec, ok := o.Object.Spec.(*schema.VolumeSpec); ok {
		v.HostPath, v.Shared, v.NodeID, v.CapacityGB, v.Description = spec.HostPath, spec.Shared, spec.NodeID, spec.CapacityGB, spec.Description
	}
	return v
}

// oneVolume is a volume by its id or its name, with what refers to it.
func oneVolume(r *request) (any, error) {
	o, err := r.only(schema.KindVolume, r.ids[r.name])
	if err != nil {
		if o, err = r.find(schema.KindVolume); err != nil {
			return nil, err
		}
	}
	return r.volume(o), nil
}

// volume counts every reference, and shows those of runs that the request sees.
func (r *request) volume(o *schema.AcceptedObject) VolumeDetail {
	d := VolumeDetail{Volume: volumeOf(o), References: []VolumeReference{}, Refused: r.refused(o)}
	for _, run := range r.runs[o.Object.Key.Namespace] {
		spec, ok := run.Object.Spec.(*schema.RunSpec)
		if !ok || !r.mounts(run.Object.Key, spec, d.Volume) {
			continue
		}
		ref := r.reference(run)
		if ref.Active {
			d.ActiveReferenceCount++
		}
		switch {
		case !r.seesObject(run.Object):
			d.HiddenReferenceCount++
		case len(d.References) < maxReferences:
			d.References = append(d.References, ref)
		}
	}
	d.InUse = d.ActiveReferenceCount > 0
	return d
}

// reference is a run that mounts a volume. A run that has ended uses it on while
// the replica group that made it is there: its next attempt takes the template over (V-8).
func (r *request) reference(run *schema.AcceptedObject) VolumeReference {
	group := run.Object.ManagedBy
	ref := VolumeReference{TaskID: run.UID, TaskName: run.Object.Key.Name, UserID: run.Object.Metadata.Owner, Active: true}
	if v, ok := r.derived().Run(run.Object.Key); ok {
		ref.TaskStatus = v.Phase
		ref.Active = v.Phase != planner.RunSucceeded && v.Phase != planner.RunFailed
	}
	if group.Kind == schema.KindReplicaGroup {
		ref.GroupID = group.Name
		if o := r.accepted[group]; o != nil && o.UID != "" {
			ref.GroupID, ref.Active = o.UID, true
		}
	}
	if !run.Created.IsZero() {
		ref.CreatedAt = &run.Created
	}
	return ref
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
