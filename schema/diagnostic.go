package schema

import (
	"cmp"
	"fmt"
	"slices"
)

// Code is a machine-readable reason of a diagnostic or hold, as the documents'
// API would answer it.
type Code string

// Codes of diagnostics and holds. The status beside each is CodeStatus's.
const (
	CodeInvalid             Code = "INVALID"               // 400: shape, range, missing field
	CodeUnknownField        Code = "UNKNOWN_FIELD"         // 400
	CodeSyntax              Code = "SYNTAX"                // 400
	CodeUnreadable          Code = "UNREADABLE"            // 400: too large, too slow, symlink, submodule, bad name
	CodeDuplicate           Code = "DUPLICATE"             // 409: one object in two files
	CodeNameNotDNSSafe      Code = "NAME_NOT_DNS_SAFE"     // 400 (N-9)
	CodeNameTaken           Code = "NAME_TAKEN"            // 409 (N-9)
	CodeForbiddenPlace      Code = "FORBIDDEN_PLACE"       // 403 (G-3, X-30)
	CodeHostAccessForbidden Code = "HOST_ACCESS_FORBIDDEN" // 403 (D-20)
	CodeForbidden           Code = "FORBIDDEN"             // 403: the owner's role does not allow it
	CodeNotFound            Code = "NOT_FOUND"             // 404
	CodeDatavolumeInUse     Code = "DATAVOLUME_IN_USE"     // 409 (D-60, X-29)
	CodeDatavolumeManaged   Code = "DATAVOLUME_MANAGED"    // 409 (D-43)
	CodeVolumeInUse         Code = "VOLUME_IN_USE"         // 409 (V-8)
	CodeVolumeConflict      Code = "VOLUME_CONFLICT"       // 409 (V-7)
	CodeMachineInUse        Code = "MACHINE_IN_USE"        // 409
	CodeWorkspaceInUse      Code = "WORKSPACE_IN_USE"      // 409
	CodeOrgInUse            Code = "ORG_IN_USE"            // 409
	CodeClusterInUse        Code = "CLUSTER_IN_USE"        // 409
	CodeDataLocation        Code = "DATA_LOCATION"         // 409 (D-31, D-32: holds that clear by themselves)
	CodeDeletionBudget      Code = "DELETION_BUDGET"       // 409
	CodeDeletionConflict    Code = "DELETION_CONFLICT"     // 409
	CodeWorkspaceNotWhole   Code = "WORKSPACE_NOT_WHOLE"   // 409 (G-5, D-61)
	CodeHistoryRewritten    Code = "HISTORY_REWRITTEN"     // 409 (G-5)
	CodeNamespaceTaken      Code = "NAMESPACE_TAKEN"       // 409
	CodeWarning             Code = "WARNING"               // 200: a warning without a code of its own
)

// Codes of warnings: they hold nothing back, and their status is 200.
const (
	CodeStoredNotApplied   Code = "STORED_NOT_APPLIED"    // D-6
	CodeSystemDisk         Code = "SYSTEM_DISK"           // D-31
	CodeDriveNotThere      Code = "DRIVE_NOT_THERE"       // D-57
	CodeDataNotDeleted     Code = "DATA_NOT_DELETED"      // D-61, V-9
	CodeGrantRevoked       Code = "GRANT_REVOKED"         // D-21
	CodeGrantNoWorkspace   Code = "GRANT_NO_WORKSPACE"    // D-20
	CodeGrantDeniedPath    Code = "GRANT_DENIED_PATH"     // V-4
	CodeAddressNotReported Code = "ADDRESS_NOT_REPORTED"  // kinds.md, Machine
	CodeAddressShared      Code = "ADDRESS_SHARED"        // two machines
	CodeNodeNetworkShared  Code = "NODE_NETWORK_SHARED"   // two machines
	CodeEndpointNoTarget   Code = "ENDPOINT_NO_TARGET"    // N-1: what it names does not exist
	CodeEgressNotEnforced  Code = "EGRESS_NOT_ENFORCED"   // N-5
	CodeStrayCopy          Code = "STRAY_COPY"
	CodeCheckpointNotThere Code = "CHECKPOINT_NOT_SHARED" // V-11
	CodeDeletionSpent      Code = "DELETION_SPENT"
	CodeVolumeRenamed      Code = "VOLUME_RENAMED"        // V-2
	CodeNoCluster          Code = "NO_CLUSTER"            // G-2
	CodeOtherFolder        Code = "OTHER_FOLDER"          // G-3
	CodeNotGuarded         Code = "NOT_GUARDED"
)

var codeStatus = map[Code]int{
	CodeInvalid: 400, CodeUnknownField: 400, CodeSyntax: 400, CodeUnreadable: 400, CodeDuplicate: 409,
	CodeNameNotDNSSafe: 400, CodeNameTaken: 409, CodeForbiddenPlace: 403, CodeHostAccessForbidden: 403,
	CodeForbidden: 403, CodeNotFound: 404, CodeDatavolumeInUse: 409, CodeDatavolumeManaged: 409, CodeVolumeInUse: 409,
	CodeVolumeConflict: 409, CodeMachineInUse: 409, CodeDataLocation: 409, CodeDeletionBudget: 409,
	CodeDeletionConflict: 409, CodeWorkspaceNotWhole: 409, CodeHistoryRewritten: 409, CodeNamespaceTaken: 409,
	CodeWorkspaceInUse: 409, CodeOrgInUse: 409, CodeClusterInUse: 409, CodeWarning: 200,
	CodeStoredNotApplied: 200, CodeSystemDisk: 200, CodeDriveNotThere: 200, CodeDataNotDeleted: 200,
	CodeGrantRevoked: 200, CodeGrantNoWorkspace: 200, CodeGrantDeniedPath: 200, CodeAddressNotReported: 200,
	CodeAddressShared: 200, CodeNodeNetworkShared: 200, CodeStrayCopy: 200, CodeCheckpointNotThere: 200,
	CodeDeletionSpent: 200, CodeVolumeRenamed: 200, CodeNoCluster: 200, CodeOtherFolder: 200, CodeNotGuarded: 200,
	CodeEndpointNoTarget: 200, CodeEgressNotEnforced: 200,
}

// Status is the HTTP status that goes with a code, 400 for an unlisted one.
func (c Code) Status() int { return cmp.Or(codeStatus[c], 400) }

// Severity of a diagnostic.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one problem of a commit with its place (G-4).
type Diagnostic struct {
	Pos
	Severity Severity `json:"severity"`
	Object   Key      `json:"object,omitzero"`
	Field    string   `json:"field,omitempty"` // "spec.sources[0].path"
	Code     Code     `json:"code"`
	Status   int      `json:"status"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to do
}

// String is "file:line:col: error[CODE]: message".
func (d Diagnostic) String() string {
	where := d.Pos.String()
	if where == "" {
		where = "-"
	}
	return fmt.Sprintf("%s: %s[%s]: %s", where, d.Severity, d.Code, d.Message)
}

// SortDiagnostics orders by place, then code and message, and drops exact repeats.
func SortDiagnostics(list []Diagnostic) []Diagnostic {
	slices.SortFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Severity, b.Severity), CompareKeys(a.Object, b.Object), cmp.Compare(a.Hint, b.Hint))
	})
	return slices.Compact(list)
}

// HasErrors reports whether any diagnostic is an error.
func HasErrors(list []Diagnostic) bool {
	return slices.ContainsFunc(list, func(d Diagnostic) bool { return d.Severity == SeverityError })
}
