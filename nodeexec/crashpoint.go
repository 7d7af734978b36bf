package nodeexec

// CrashPoint names a place at which an agent may die and must recover from.
type CrashPoint string

// The places, each between two effects that a crash can separate.
const (
	CrashBlobsStored      CrashPoint = "blobs-stored"       // blobs on disk, assignment not yet
	CrashAssignmentStored CrashPoint = "assignment-stored"  // assignment on disk, nothing done
	CrashBeforeStep       CrashPoint = "before-step"        // a step is about to act
	CrashAfterStep        CrashPoint = "after-step"         // a step acted, not reported
	CrashUseRecorded      CrashPoint = "use-recorded"       // use on disk, copy not checked
	CrashWorkerStarted    CrashPoint = "worker-started"     // worker runs, copy not marked used
	CrashFillEnded        CrashPoint = "fill-ended"         // marker there, sidecar not written
	CrashBeforeDelete     CrashPoint = "before-delete"      // users counted, copy not renamed
	CrashFailureRecorded  CrashPoint = "failure-recorded"   // failure on disk, not reported
	CrashBeforeRemove     CrashPoint = "before-remove"      // outcome known, worker not forgotten
	CrashClusterPinned    CrashPoint = "cluster-uid-pinned" // pinned, no assignment yet
	CrashZoneTaken        CrashPoint = "zone-taken"         // answered from a newer zone, which is not on disk yet
)

// CrashPoints lists every crash point; a test goes through all of them.
var CrashPoints = []CrashPoint{
	CrashBlobsStored, CrashAssignmentStored, CrashBeforeStep, CrashAfterStep, CrashUseRecorded, CrashWorkerStarted,
	CrashFillEnded, CrashBeforeDelete, CrashFailureRecorded, CrashBeforeRemove, CrashClusterPinned,
	CrashZoneTaken,
}
