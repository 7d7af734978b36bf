package schema

import (
	"cmp"
	"fmt"
	"strings"
)

// Kind names a kind of object as files write it (G-2).
type Kind string

// The kinds of G-2.
const (
	KindCluster       Kind = "Cluster"
	KindMachine       Kind = "Machine"
	KindOrg           Kind = "Org"
	KindWorkspace     Kind = "Workspace"
	KindHostPathGrant Kind = "HostPathGrant"
	KindDrive         Kind = "Drive"
	KindVolume        Kind = "Volume"
	KindRun           Kind = "Run"
	KindReplicaGroup  Kind = "ReplicaGroup"
	KindEndpoint      Kind = "Endpoint"
	KindModel         Kind = "Model"
	KindDeletion      Kind = "Deletion"
)

// Kinds lists every kind, the outer ones first: an object of a later kind may
// refer to one of an earlier kind, so creates are applied in this order and
// removals in the reverse of it.
var Kinds = []Kind{
	KindCluster, KindOrg, KindMachine, KindWorkspace, KindHostPathGrant, KindDrive, KindVolume,
	KindModel, KindRun, KindReplicaGroup, KindEndpoint, KindDeletion,
}

var kindWords = map[Kind]string{
	KindCluster: "cluster", KindMachine: "machine", KindOrg: "org", KindWorkspace: "workspace",
	KindHostPathGrant: "grant", KindDrive: "drive", KindVolume: "volume", KindRun: "run",
	KindReplicaGroup: "replica_group", KindEndpoint: "endpoint", KindModel: "model", KindDeletion: "deletion",
}

// Word is the kind as references and the command line write it: "drive", "replica_group".
func (k Kind) Word() string { return kindWords[k] }

// Known reports whether k is a kind of G-2.
func (k Kind) Known() bool { return kindWords[k] != "" }

// KindOfWord is the inverse of Word; it also takes plurals and the documents'
// other names (datavolume, node). ok is false for an unknown word.
func KindOfWord(word string) (k Kind, ok bool) {
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	switch word {
	case "datavolume", "datavolumes":
		word = "drive"
	case "node", "nodes":
		word = "machine"
	case "hostpathgrant", "hostpathgrants", "host_path_grant", "host_path_grants":
		word = "grant"
	case "replicagroup", "replicagroups":
		word = "replica_group"
	}
	for kind, w := range kindWords {
		if word == w || word == w+"s" {
			return kind, true
		}
	}
	return "", false
}

// InWorkspace reports whether objects of this kind live below a workspace.
func (k Kind) InWorkspace() bool {
	switch k {
	case KindDrive, KindVolume, KindRun, KindReplicaGroup, KindEndpoint, KindModel, KindDeletion:
		return true
	}
	return false
}

// Key identifies an object. Namespace is the workspace's namespace (ws-…) for
// kinds below a workspace, the org's name for Workspace and HostPathGrant, and
// empty for Cluster, Org and Machine (machine names are unique in the cluster).
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// Scoped is "<namespace>.<name>", or the name alone where there is no namespace.
// For a drive it is the name of its copy directories (D-2).
func (k Key) Scoped() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "." + k.Name
}

// String is "drive/ws-3f9c2a7d41be.imagenet".
func (k Key) String() string {
	if k.Kind == "" {
		return ""
	}
	return k.Kind.Word() + "/" + k.Scoped()
}

// MarshalText makes a Key a JSON string and a JSON object's key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// ParseKey reads the form that String writes; the empty string is the zero Key.
func ParseKey(text string) (Key, error) {
	if text == "" {
		return Key{}, nil
	}
	word, rest, ok := strings.Cut(text, "/")
	kind, known := KindOfWord(word)
	if !ok || !known || rest == "" {
		return Key{}, fmt.Errorf("object reference %q: want kind/name or kind/namespace.name", text)
	}
	switch kind {
	case KindCluster, KindOrg, KindMachine:
		return Key{Kind: kind, Name: rest}, nil
	}
	ns, name, ok := strings.Cut(rest, ".")
	if !ok || ns == "" || name == "" {
		return Key{}, fmt.Errorf("object reference %q: a %s is written %s/namespace.name", text, kind.Word(), kind.Word())
	}
	return Key{Kind: kind, Namespace: ns, Name: name}, nil
}

// CompareKeys orders by kind (as in Kinds), namespace, name.
func CompareKeys(a, b Key) int {
	// Step by step: plans compare keys by the million, mostly of one kind.
	if a.Kind != b.Kind {
		return cmp.Compare(kindOrder[a.Kind], kindOrder[b.Kind])
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

var kindOrder = func() map[Kind]int {
	order := make(map[Kind]int, len(Kinds))
	for i, k := range Kinds {
		order[k] = i
	}
	return order
}()
