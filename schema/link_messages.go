package schema

// Up is what a machine sends over the link. Exactly one field is set.
type Up struct {
	Hello  *Hello         `json:"hello,omitempty"`
	Report *MachineReport `json:"report,omitempty"`
	// Zone asks for what is newer than the zone that the machine holds, or with a
	// zero value for the whole zone (N-3).
	Zone *ZoneHave `json:"zone,omitempty"`
}

// Hello opens a stream. Blobs are the hashes the machine already has.
type Hello struct {
	Version     int      `json:"version"`
	Machine     string   `json:"machine"`
	ClusterUID  string   `json:"cluster_uid,omitempty"` // pinned, "" on first contact
	Incarnation string   `json:"incarnation"`
	Blobs       []string `json:"blobs,omitempty"`
}

// Down is what the leader sends. Blobs come before or with the first assignment
// that names them.
type Down struct {
	Assignment *Assignment       `json:"assignment,omitempty"`
	Blobs      map[string][]byte `json:"blobs,omitempty"`
	// Zone is the names of the machine's org, or what changed in them (N-3).
	Zone *ZoneUpdate `json:"zone,omitempty"`
}
