package planner

import (
	"fmt"
	"strings"
	"time"

	"astraeus.io/astraeus/schema"
)

// Every sentence of holds, notes, drift and events is here; those of waits are
// in schema/sentences.go. Words of the requirement rows are interface.

// thisMachine stands for the candidate in a reason until reasons are grouped.
const thisMachine = "this machine"

const (
	notDeclared    = "not declared"     // where a machine's state would stand
	volumeNotFound = "volume not found" // V-6
	noSharedRDMA   = "transport is RDMA, and both machines are not on one RDMA network"

	systemDiskWarning  = "this is the system disk: drive copies share its space with the operating system"                               // D-31
	notOwnDisk         = "a data location must be on this machine's own disk — to use shared storage, make a shared drive instead"       // D-31
	volumeRecordGone   = "volume record deleted; only the platform record was removed — the data under the host path was NOT deleted"    // V-9
	driveDataUntouched = "the data on the machines is not deleted"                                                                       // D-61
	rewrittenHistory   = "the history was rewritten: this commit does not descend from the one in force; allow it on purpose"            // G-5
	volumeUseHint      = "stop what uses it, or let it go without, in a commit before this one"                                          // V-8
	rolesCountLater    = "roles that a commit gives count from the next commit on"
	localVolumeGang    = "a run over several machines cannot use a local volume: the other machines would mount an empty directory"      // V-7
	allowanceSpent     = "it was for one commit, which has passed: this Deletion can be removed"
	storedNotApplied   = "accepted and stored, not applied: "                                                                            // D-6
	checkpointNotThere = "checkpoint_path of a run over several machines is on no shared volume or drive: each would write its own disk" // V-11
)

// removedWords says what becomes of the data (D-61, V-9).
func removedWords(a *schema.AcceptedObject) string {
	switch spec := a.Object.Spec.(type) {
	case *schema.VolumeSpec:
		return fmt.Sprintf("%s %s: %s", volumeID(a), spec.HostPath, volumeRecordGone)
	case *schema.DriveSpec:
		if spec.Placed() {
			return "its copies on every machine are deleted"
		}
		return driveDataUntouched
	}
	return "removed"
}

// dataStays is the warning of a removal that touches no data, "" for another.
func dataStays(a *schema.AcceptedObject) string {
	switch spec := a.Object.Spec.(type) {
	case *schema.VolumeSpec:
		return removedWords(a) + " (host_data_deleted: false)"
	case *schema.DriveSpec:
		var paths []string
		for _, s := range spec.Sources {
			if s.NodeScope != schema.ScopePlaced {
				paths = append(paths, s.Path)
			}
		}
		if len(paths) > 0 {
			return fmt.Sprintf("drive %s is removed; the data under %s is not deleted", a.Object.Key.Name, strings.Join(paths, ", "))
		}
	}
	return ""
}

func sourceOutOfRange(drive string, index, n int) string {
	return fmt.Sprintf("drive %s has %d source(s), there is no source %d", drive, n, index)
}

// driveInUse: D-60.
func driveInUse(drive string, n int) string {
	return fmt.Sprintf("drive %s is used by %d live worker(s)", drive, n)
}

// driveManaged: D-43.
func driveManaged(drive string, owner schema.Key) string {
	by := owner.Kind.Word() + "/" + owner.Name
	return fmt.Sprintf("drive %s is managed by %s; delete %s instead", drive, by, by)
}

func notReported(machine string) string {
	return fmt.Sprintf("machine %s has not reported its disks yet; wait until it is up, then choose again", machine)
}

func noFilesystem(machine, path string) string {
	return fmt.Sprintf("%s is on no filesystem that machine %s reported", path, machine)
}

func holdsCopies(machine string, n int) string {
	return fmt.Sprintf("the data location cannot be cleared while machine %s holds %d copies", machine, n)
}

func copiesUnknown(machine string) string {
	return fmt.Sprintf("the data location cannot be cleared before machine %s has reported its copies", machine)
}

// overlaps: X-16.
func overlapsLocation(path, location, machine string) string {
	return fmt.Sprintf("%s overlaps the data location %s of machine %s", path, location, machine)
}

func overlapsState(path string) string {
	return fmt.Sprintf("%s overlaps the agent's own directory %s", path, agentState)
}

func locationOverlaps(path, other string, by schema.Key) string {
	return fmt.Sprintf("data location %s overlaps %s of %s", path, other, by)
}

// workspaceUndeclared is what the loader says of a folder that nothing declares (G-3).
func workspaceUndeclared(ws schema.Key) string {
	return fmt.Sprintf("workspace %q of org %q is not declared", ws.Name, ws.Namespace)
}

func machineInUse(name, what string) string {
	return fmt.Sprintf("machine %s still has %s", name, what)
}

func machineUnknown(name string) string {
	return fmt.Sprintf("machine %s has not reported its copies and workers: nobody knows what would be lost with it", name)
}

func scopeInUse(key schema.Key, what string) string { return fmt.Sprintf("%s still has %s", key, what) }

func countWords(copies, workers, claims int) string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{copies, "copies"}, {workers, "workers"}, {claims, "claims"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// notWhole: G-5.
func notWhole(pos schema.Pos) string {
	return fmt.Sprintf("nothing is deleted while %s cannot be used", pos)
}

// overBudget: X-28.
func overBudget(n, total int, kind schema.Kind, namespace string, b schema.DeletionBudget) string {
	where := ""
	if namespace != "" {
		where = " of " + namespace
	}
	return fmt.Sprintf("%d of %d objects of kind %s%s would go; the deletion budget is %d or %d %%: allow it with a Deletion",
		n, total, kind, where, b.Count, b.Percent)
}

func wholeScope(key schema.Key, n int) string {
	return fmt.Sprintf("%s with %d objects would go: allow it with a Deletion", key, n)
}

func nameTaken(name string, by schema.Key) string {
	return fmt.Sprintf("the name %s is taken by %s", name, by)
}

func nameNotDNSSafe(name, problem string) string {
	return fmt.Sprintf("%q cannot be a DNS name: %s", name, problem)
}

func namespaceTaken(namespace string, by schema.Key) string {
	return fmt.Sprintf("the namespace %s is taken by %s", namespace, by)
}

// namespaceChanged: X-31.
func namespaceChanged(ws schema.Key, was, now string) string {
	return fmt.Sprintf("what is in force in %s has the namespace %s and would be removed and made anew in %s: write `namespace: %q` into its spec", ws, was, now, was)
}

// volumeInUse: V-8. Runs that the volume's owner may not see are only counted (V-10).
func volumeInUse(name string, users []string, hidden int) string {
	const most = 10
	if more := len(users) - most; more > 0 {
		users, hidden = users[:most], hidden+more
	}
	text := strings.Join(users, ", ")
	switch {
	case text == "" && hidden == 1:
		text = "a run"
	case text == "":
		text = fmt.Sprintf("%d runs", hidden)
	case hidden > 0:
		text += fmt.Sprintf(" and %d more", hidden)
	}
	return fmt.Sprintf("volume %s is used by %s", name, text)
}

// volumeIDTaken: V-2. Whose it is in another workspace is nobody's business (V-6).
func volumeIDTaken(id string, by schema.Key, here bool) string {
	if !here {
		return fmt.Sprintf("the id %s is taken", id)
	}
	return fmt.Sprintf("the id %s is taken by %s", id, by)
}

func volumeNameTaken(name, id string) string {
	return fmt.Sprintf("the name %s is taken by the volume %s", name, id)
}

// volumeKeepsID: what a volume's own id is, where another was written.
func volumeKeepsID(name, id string) string {
	return fmt.Sprintf("the id of volume %s is %s: another id makes it another volume", name, id)
}

// renameHint says how a volume is renamed that has no id in its file (V-2).
func renameHint(id string) string {
	return fmt.Sprintf("to rename it, write `id: %q` into the metadata of its file", id)
}

// volumeMoved: V-2.
func volumeMoved(id, name string) string {
	return fmt.Sprintf("volume %s is called %s now", id, name)
}

// volumeRenamed: a template names a volume that has another name now.
func volumeRenamed(name, id, now string) string {
	return fmt.Sprintf("volume %s (%s) is called %s now: write that name, or `volume_id`", name, id, now)
}

// ownerNeeded: X-32.
func ownerNeeded(o *schema.Object) string {
	return fmt.Sprintf("metadata.owner: workspace %s lists its members; say whose %s this is", o.Workspace, words(o.Key.Kind))
}

// ownerMayNot.
func ownerMayNot(o *schema.Object, role schema.Role) string {
	if role == "" {
		return fmt.Sprintf("metadata.owner %q: no member of workspace %s", o.Metadata.Owner, o.Workspace)
	}
	return fmt.Sprintf("metadata.owner %q: a %s of workspace %s may not add a %s", o.Metadata.Owner, role, o.Workspace, words(o.Key.Kind))
}

func words(kind schema.Kind) string { return strings.ReplaceAll(kind.Word(), "_", " ") }

// allowanceOfOrg.
func allowanceOfOrg(o *schema.Object, kind schema.Kind) string {
	return fmt.Sprintf("metadata.owner %q: only an admin of org %s may allow the deletion of objects of kind %s", o.Metadata.Owner, o.Org, kind)
}

func allowanceOfWorkspace(o *schema.Object) string {
	return fmt.Sprintf("metadata.owner %q: only an admin of workspace %s may lift its deletion budget", o.Metadata.Owner, o.Workspace)
}

// volumeRefused: a volume's own path does not pass any more (V-4).
func volumeRefused(name, problem string) string { return fmt.Sprintf("volume %s: %s", name, problem) }

func volumesApart(a, b pin) string {
	return fmt.Sprintf("volume %s is on machine %s and volume %s on machine %s: no machine has both", a.volume, a.machine, b.volume, b.machine)
}

func volumeUnbound(p pin) string {
	return fmt.Sprintf("volume %s is bound to machine %s, which is gone: bind it to another one", p.volume, p.machine)
}

func hostPathDisagrees(name, path string) string {
	return fmt.Sprintf("host_path disagrees with volume %s (%s): leave it out", name, path)
}

func pathNeedsGrant(path string) string {
	return fmt.Sprintf("%q: volumes need a grant here, and none covers it", path)
}

func mountPathTwice(path string) string { return fmt.Sprintf("mount path %s is used twice", path) }

func addressNotReported(machine, address string) string {
	return fmt.Sprintf("machine %s does not report its declared address %s", machine, address)
}

func addressUnknown(machine string) string {
	return fmt.Sprintf("the address of %s is not known yet", machine)
}

func noServer(machine, piece string) string { return missing(machine, "NFS server", piece) }

func noClient(machine, piece string) string { return missing(machine, "NFS client", piece) }

func missing(machine, what, piece string) string {
	if piece == "" {
		return fmt.Sprintf("%s has no %s", machine, what)
	}
	return fmt.Sprintf("%s has no %s: %s", machine, what, piece)
}

func deletionConflict(target schema.Key) string {
	return fmt.Sprintf("%s is still declared: remove its file, or this Deletion", target)
}

func deletionSpent(target schema.Key) string {
	return fmt.Sprintf("%s is gone: this Deletion can be removed", target)
}

func deletionUseless(target schema.Key) string {
	return fmt.Sprintf("%s does not exist: this Deletion has nothing to do and can be removed", target)
}

func grantRevoked(path string, users int) string {
	return fmt.Sprintf("the grant of %s was taken back: %d live worker(s) still use it, new ones wait", path, users)
}

// sharedValue: two machines with one address or node network.
func sharedValue(field, value, other string) string {
	return fmt.Sprintf("%s %s is machine %s's too", field, value, other)
}

func grantDenied(path, prefix string) string {
	return fmt.Sprintf("%s is under the denied prefix %s: volumes there stay refused, and a drive there reaches the machine's own files", path, prefix)
}

func driftGone(what string) string    { return what + " is gone" }
func driftChanged(what string) string { return what + " differs from what is wanted" }

func mountWords(drive, from string) string {
	return fmt.Sprintf("the mount of %s from %s", drive, from)
}
func exportWords(drive, client string) string {
	return fmt.Sprintf("the export of %s to %s", drive, client)
}
func copyWords(drive string) string { return "the copy of " + drive }

func strayCopy(folder string) string {
	return folder + " is a copy of no known drive and is left alone"
}

func runEnded(name string, how schema.RunOutcome) string {
	if how == schema.RunSucceeded {
		return "run " + name + " has succeeded"
	}
	return "run " + name + " has failed"
}

func runRestarts(name string, last *schema.PlacedWorker, attempt int) string {
	why := "ended"
	if last.Outcome.ExitCode != nil {
		why = fmt.Sprintf("ended with exit code %d", *last.Outcome.ExitCode)
	}
	if last.Outcome.Reason != "" {
		why += " (" + last.Outcome.Reason + ")"
	}
	return fmt.Sprintf("%s %s: run %s starts again (attempt %d)", last.Name, why, name, attempt+1)
}

func lostOn(worker, machine string) string { return worker + " was lost on " + machine }

func runReplaced(name string, w *schema.PlacedWorker, attempt int) string {
	return fmt.Sprintf("%s: run %s starts again (attempt %d)", lostOn(w.Name, w.Machine), name, attempt+1)
}

// stopTooLate: X-13.
func stopTooLate(most, replaceAfter time.Duration) string {
	if most < schema.MinStopIfAway {
		return fmt.Sprintf("the cluster's replace_after is %s and must be %s or more for it", replaceAfter, schema.MinStopIfAway+schema.StopMargin)
	}
	return fmt.Sprintf("must be %s or less: a minute under the cluster's replace_after, which is %s", most, replaceAfter)
}

// maxLastEnd bounds what a machine's words take of a placement.
const maxLastEnd = 200 // characters

// lastEnd says how an attempt ended; in a gang, which worker's end it was.
func lastEnd(last *schema.PlacedWorker, workers int) string {
	text := last.Outcome.Reason
	switch {
	case text != "":
	case last.Outcome.ExitCode != nil:
		text = fmt.Sprintf("exit code %d", *last.Outcome.ExitCode)
	default:
		text = "ended"
	}
	if workers > 1 {
		text = last.Name + ": " + text
	}
	return cutText(text, maxLastEnd)
}

func objectCount(n int) string { return fmt.Sprintf("%d objects", n) }

// namedMachine puts a machine's name into a sentence that was made for any.
func namedMachine(text, name string) string { return strings.Replace(text, thisMachine, name, 1) }

// fellBack: D-81.
const fellBack = "mounted over TCP (RDMA did not work)"

// sourceAway: D-90.
func sourceAway(source int, machine string, state schema.MachineState) string {
	return fmt.Sprintf("source %d is on machine %s which is %s", source, machine, state)
}

func endpointNoTarget(behind schema.Key) string {
	return fmt.Sprintf("%s %s does not exist: the endpoint has no address until it does", behind.Kind.Word(), behind.Name)
}

const egressOnHost = "workers on the host network keep their machine's resolver: the policy is not enforced"

func egressOnHostOf(machine string) string {
	return fmt.Sprintf("workers on machine %s are on the host network and keep its resolver: the policy is not enforced there", machine)
}

func egressShared(machine string) string {
	return fmt.Sprintf("process workers on machine %s share its address and cannot be told apart: the policy is not enforced there", machine)
}

func declaredAt(pos schema.Pos) string {
	return "it is declared at " + pos.String() + ": rename one of both"
}

const (
	noBackend  = "none of its workers has a place"
	noneReady  = "none of its workers is ready"
	notRunning = "it is not running"
	notChecked = "its health has not been checked yet"
)

func egressNoSpace(name string) string {
	return fmt.Sprintf("the org has no workspace %s: nothing is allowed by it", name)
}
