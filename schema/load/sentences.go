package load

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// The sentences of diagnostics. The documents' exact words are interface.

// Of files.
const (
	sayNUL       = "the file contains a NUL byte"
	sayNotUTF8   = "the file is not valid UTF-8"
	sayDepth     = "structs and lists are nested too deeply"
	sayExtern    = "the attribute @extern is not allowed: a file embeds no others"
	sayTooMuch   = "the value is too large"
	sayFields    = "a struct has too many fields"
	sayJSONTail  = "not valid JSON: more text after the value"
	sayJSONEnd   = "not valid JSON: the file ends in the middle of a value"
	sayYAMLBomb  = "too many values, an alias counted as all that it stands for"
	sayYAMLKey   = "a YAML key must be plain text"
	sayYAMLMerge = "YAML merge keys (<<) are not supported"
	sayYAMLFloat = "not a finite number"

	sayEvalMemory = "evaluation needed too much memory"
	sayEvalDied   = "evaluation failed: the evaluator stopped"

	saySymlink     = "a symbolic link is not followed"
	sayIrregular   = "not a regular file"
	sayControlName = "the name contains control characters or is not valid UTF-8"
	sayEmpty       = "the file declares no object"
	hintEmpty      = "remove the file to remove its object"
	sayTwin        = "another name in this directory differs only in case"
	sayFormTwin    = "another name in this directory is the same text in another Unicode form"
	sayNoCluster   = `no cluster file: the cluster is called "default"`
	hintNoCluster  = `add cluster.cue with kind: "Cluster" and metadata: name: "…"`
	sayTooDeep     = "an object this deep inside other values is not read: move it up, objects are looked for three levels deep"
	sayNotObject   = "an object is a group of fields: kind, metadata, spec"
)

func sayTwice(name string) string { return fmt.Sprintf("the field %q is given twice", name) }

func sayTooBig(size, limit int64) string {
	return fmt.Sprintf("the file has %s; at most %s are read", schema.Size(size), schema.Size(limit))
}

func sayEvalTime(d time.Duration) string { return "evaluation did not end within " + d.String() }

func sayEvalStart(err error) string { return "evaluation is not possible: " + err.Error() }

func sayNotConcrete(value string) string {
	if len(value) > 80 {
		value = value[:80] + "…"
	}
	return fmt.Sprintf("the value is not known: it is only %s", strconv.Quote(value))
}

func sayUnreadable(err error) string { return "the file cannot be read: " + err.Error() }

func sayTwinOf(text, other string) string { return text + ": " + other }

func sayBroken(file string) string {
	return fmt.Sprintf("not evaluated: %s, which it is evaluated with, cannot be used", file)
}

func sayImport(path string) string {
	return fmt.Sprintf("import %q: only CUE's standard library, lib/ and directories above are imported", path)
}

func sayNoImport(path string) string {
	return fmt.Sprintf("import %q: there is no such package in the repository", path)
}

func sayImportCycle(path string) string {
	return fmt.Sprintf("import %q: the packages import each other in a circle", path)
}

func sayImportPlace(path string) string {
	return fmt.Sprintf("import %q: definitions come from a file's own directory, a directory above it or lib/", path)
}

// Of kinds and places.
const (
	sayNoKind  = "kind: this field is required"
	sayTenant  = "the workspace comes from the file's place, never from a field"
	sayBadKind = "kind: must be text"
)

func sayUnknownKind(kind, near string) string {
	text := fmt.Sprintf("kind: %q is no kind", kind)
	if near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return text
}

var rightPlaces = map[schema.Kind]string{
	schema.KindCluster:       "cluster.cue at the top of the repository",
	schema.KindOrg:           "orgs/<org>/org.cue",
	schema.KindMachine:       "orgs/<org>/machines/",
	schema.KindHostPathGrant: "orgs/<org>/grants/",
	schema.KindWorkspace:     "orgs/<org>/workspaces/<workspace>/workspace.cue",
	schema.KindDrive:         "orgs/<org>/workspaces/<workspace>/drives/",
	schema.KindVolume:        "orgs/<org>/workspaces/<workspace>/volumes/",
	schema.KindRun:           "orgs/<org>/workspaces/<workspace>/runs/",
	schema.KindReplicaGroup:  "orgs/<org>/workspaces/<workspace>/replica_groups/",
	schema.KindEndpoint:      "orgs/<org>/workspaces/<workspace>/endpoints/",
	schema.KindModel:         "orgs/<org>/workspaces/<workspace>/models/",
	schema.KindDeletion:      "orgs/<org>/workspaces/<workspace>/deletions/",
}

// sayPlace names the right place, with the org and workspace where they are known.
func sayPlace(kind schema.Kind, p filePlace) string {
	return fmt.Sprintf("an object of kind %s is not accepted here; its place is %s", kind, rightPlace(kind, p))
}

func rightPlace(kind schema.Kind, p filePlace) string {
	right := rightPlaces[kind]
	if p.org != "" {
		right = strings.ReplaceAll(right, "<org>", p.org)
	}
	if p.workspace != "" {
		right = strings.ReplaceAll(right, "<workspace>", p.workspace)
	}
	return right
}

// sayOtherFolder: the object is taken, though its file is where others are looked for (G-3).
func sayOtherFolder(kind, folder schema.Kind, p filePlace) string {
	return fmt.Sprintf("an object of kind %s in the folder of kind %s; by the layout its place is %s", kind, folder, rightPlace(kind, p))
}

func sayOtherWorkspace(given, real string) string {
	return fmt.Sprintf("metadata.workspace %q: this file is in the folder of workspace %q", given, real)
}

func sayFolderName(word, given, folder string) string {
	return fmt.Sprintf("metadata.name %q: this is the folder of %s %q", given, word, folder)
}

func sayUndeclaredOrg(org string) string { return fmt.Sprintf("org %q is not declared", org) }

func sayUndeclaredWorkspace(org, ws string) string {
	return fmt.Sprintf("workspace %q of org %q is not declared", ws, org)
}

func sayDuplicate(what string, other schema.Pos) string {
	return fmt.Sprintf("%s is declared again at %s; neither is used", what, other)
}

const hintDuplicate = "keep one of them"

// Of values.
const (
	sayRequired  = "this field is required"
	sayEmptyList = "at least one is needed"
)

func sayUnknownField(near string) string {
	if near == "" {
		return "unknown field"
	}
	return fmt.Sprintf("unknown field, did you mean %q?", near)
}

func sayKnownFields(names []string) string { return "known fields: " + strings.Join(names, ", ") }

var kindNames = map[nodeKind]string{
	nullNode: "null", boolNode: "true or false", intNode: "a number", floatNode: "a number with a fraction",
	stringNode: "text", bytesNode: "bytes", listNode: "a list", structNode: "a group of fields",
}

func sayWant(want string, n *node) string {
	return fmt.Sprintf("must be %s, not %s", want, kindNames[n.Kind])
}

func sayWantText(enum []string) string {
	if enum != nil {
		return "one of " + quoteAll(enum)
	}
	return "text"
}

func sayEnum(given string, enum []string) string {
	text := fmt.Sprintf("%q is not one of %s", given, quoteAll(enum))
	if near := nearest(given, enum); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return text
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return strings.Join(quoted, ", ")
}

func sayRange(low, high *big.Float) string {
	switch top := new(big.Float).SetInt64(math.MaxInt64); {
	case high == nil || high.Cmp(top) >= 0:
		return "must be " + low.Text('f', -1) + " or more"
	default:
		return fmt.Sprintf("must be between %s and %s", low.Text('f', -1), high.Text('f', -1))
	}
}

func sayDuration(given string) string {
	return fmt.Sprintf("%q is not a duration above zero like 30s or 5m", given)
}

func sayObjectSize(size int) string {
	return fmt.Sprintf("the object has %s; an object has at most %d KB", schema.Size(int64(size)), maxObjectBytes>>10)
}

// Of drives (D-1..D-8, D-40, D-42).
const (
	sayNotEvictable = "spec.evictable: only a drive kept on the machines' data locations can be evictable"
	sayManagedBy    = "the field is set by Astraeus only, never through the API"
	sayHintPlaced   = "only a drive kept on the machines' data locations has an expected size"
	sayFillPlaced   = "only a drive kept on the machines' data locations can be filled"
	sayOneSource    = "a drive kept on the machines' data locations has exactly one source"
	sayNodeEmpty    = "must be empty for a drive kept on the machines' data locations"
	sayNodeNeeded   = "the machine that holds the data is required"
	sayFillImage    = "a fill needs an image"
	sayFillDrives   = "a fill may not have drives of its own"
	sayFillVolumes  = "a fill may not have volumes of its own"
	sayFillAccess   = "a fill may not have external accesses of its own"
	sayNotAbsolute  = "the path must be absolute"
)

func sayMountPath(drive string) string {
	return fmt.Sprintf("Invalid task: data volume %s: mount_path must be absolute", drive)
}

// Of workers.
const (
	sayRunNothing    = "task_template or worker_groups is required"
	sayRunBoth       = "a run has task_template or worker_groups, not both"
	sayLeaderAlone   = "a run without worker_groups has no leader_group"
	sayTooManyMounts = "a template mounts at most 32 volumes"
	sayBoundNode     = "the field is derived from the volume and cannot be set"
	sayMountWhat     = "volume_id, name or host_path is required"
	sayMountBoth     = "a volume is named by volume_id or by name, not both"
	sayEndpointOne   = "exactly one of run and replica_group is required"
	sayCheckPort     = "a health check needs a port to ask"
	sayCheckOne      = "exactly one of tcp and http is required"
	sayEnvName       = `an environment variable's name is not empty and contains no "=" or NUL`
)

func sayMountTwice(path, other string) string {
	return fmt.Sprintf("%s is mounted there already by %s", path, other)
}

func sayGPUs(count, machines int) string {
	return fmt.Sprintf("%d GPUs cannot be divided evenly over %d machines", count, machines)
}

func sayGang(workers, most int) string {
	return fmt.Sprintf("%d workers; a run with a spec of this size has at most %d", workers, max(most, 0))
}

func sayConfigSize(size int) string {
	return fmt.Sprintf("the config files have %s; a template's have at most %d KB", schema.Size(int64(size)), maxConfigFileBytes>>10)
}

func sayNameTwice(name string) string { return fmt.Sprintf("%q is used twice", name) }

func sayNoGroup(name string) string { return fmt.Sprintf("there is no worker group %q", name) }

func sayNotDNS(what, name, problem string) string {
	return fmt.Sprintf("the %s %q cannot be a DNS name: %s", what, name, problem)
}

// Of volumes (V-1, V-2).
const (
	sayVolumeID     = `must be "vol-" and 16 hex digits`
	sayIDElsewhere  = "only a volume has an id"
	sayDescription  = "a description has at most 1024 characters"
	saySharedNode   = "a shared volume has no node_id"
	sayNodeIDNeeded = "a volume that is not shared needs the machine it is on"
)

// Of the frame and deletions.
const (
	sayAddress       = "must be an IP address"
	sayNodeNetwork   = "must be an IPv4 network of 256 addresses like 10.240.3.0/24"
	sayNamespaceForm = `must be "ws-" and 12 hex digits`
	sayStopAbove     = "must be above start_percent"
	sayReplaceAfter  = "must not be shorter than down_after"
	sayStopIfAway    = "must be 30s or more: another controller takes over in less"
	sayDomain        = "must be a domain name like astraeus.local"
	sayMachineName   = "a machine's name is a host name: letters, digits, hyphens, underscores and dots, at most 253"
	sayDeletionOne   = "exactly one of drive, volume, run, replica_group, endpoint, model and allow is required"
	sayForceDrive    = "only a drive's deletion is forced"
	sayNoWorkspace   = "only an object of a workspace has it"
	sayModelName     = "a model's name has at most 57 characters, its drive is called model-<name>"
)

func replaceOrg(place, org string) string { return strings.ReplaceAll(place, "<org>", org) }

func sayEgressName(name, problem string) string {
	return fmt.Sprintf(`%q is neither a DNS name, "*." and one, nor "*": %s`, name, problem)
}
