package schema

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// All sentences that people read about waits and steps are in this file; the
// documents' exact words are interface.

// Message is the reason's sentence.
func (r Reason) Message() string {
	if say := reasonSentences[r.Code]; say != nil {
		return say(r)
	}
	return string(r.Code)
}

func (r Reason) where() string {
	switch {
	case r.Machine != "":
		return r.Machine
	case len(r.Machines) == 1:
		return r.Machines[0]
	}
	return ""
}

func (r Reason) whereOr(several string) string { return cmp.Or(r.where(), several) }

var reasonSentences = map[ReasonCode]func(Reason) string{
	ReasonNoDataLocation: func(r Reason) string {
		return "Choose where to keep data on " + r.whereOr("the machines")
	},
	ReasonNoRoom: func(r Reason) string {
		return fmt.Sprintf("drive %s needs %s at this machine's data location, %s free",
			r.Args.Drive, Size(r.Args.Need), Size(r.Args.Have))
	},
	ReasonOverLimit: func(r Reason) string {
		return fmt.Sprintf("drive %s needs %s; this machine's data location holds %s of its %s limit",
			r.Args.Drive, Size(r.Args.Need), Size(r.Args.Have), Size(r.Args.Limit))
	},
	ReasonLocalElsewhere: func(r Reason) string {
		return fmt.Sprintf("drive %s: source %d is local to machine %s and its transport is Local",
			r.Args.Drive, r.Args.Source, r.Args.Machine)
	},
	ReasonNotEligible: func(r Reason) string {
		if r.where() == "" {
			return fmt.Sprintf("drive %s: source %d is not usable from %d machines", r.Args.Drive, r.Args.Source, r.Count)
		}
		return fmt.Sprintf("drive %s: source %d is not usable from machine %s", r.Args.Drive, r.Args.Source, r.where())
	},
	ReasonSharedNotMounted: func(r Reason) string {
		return fmt.Sprintf("drive %s: %s is not on a shared filesystem mounted here", r.Args.Drive, r.Args.Path)
	},
	ReasonOtherSite: func(r Reason) string {
		return fmt.Sprintf("drive %s is on %s, in another site (%s)", r.Args.Drive, r.Args.Machine, r.Args.Site)
	},
	ReasonNoDrive: func(r Reason) string {
		switch {
		case r.Args.Path != "": // its file is there
			return fmt.Sprintf("drive %s: its file cannot be used (%s)", r.Args.Drive, r.Args.Path)
		case r.Args.Text != "":
			return fmt.Sprintf("drive %s is held back: %s", r.Args.Drive, r.Args.Text)
		}
		return fmt.Sprintf("drive %s does not exist", r.Args.Drive)
	},
	ReasonMachineDown: func(r Reason) string {
		return fmt.Sprintf("%s %s %s", plural(r, "machine", "machines"), isOrAre(r), cmp.Or(r.Args.State, "Down"))
	},
	ReasonNotConnected: func(r Reason) string {
		text := fmt.Sprintf("%s %s not connected yet", plural(r, "machine", "machines"), hasOrHave(r))
		if r.where() == "" && len(r.Machines) > 1 {
			text += " (" + firstOf(r.Machines, 3) + ")"
		}
		return text
	},
	ReasonNotReported: func(r Reason) string {
		if r.where() == "" {
			return "the machines have not reported their disks yet"
		}
		return "machine " + r.where() + " has not reported its disks yet"
	},
	ReasonUnschedulable: func(r Reason) string { return plural(r, "machine", "machines") + " set to schedulable: false" },
	ReasonLeaving: func(r Reason) string {
		return fmt.Sprintf("%s %s being removed", plural(r, "machine", "machines"), isOrAre(r))
	},
	ReasonNoEngine: func(r Reason) string {
		if r.Args.Text != "" {
			return fmt.Sprintf("%s: %s", plural(r, "machine", "machines"), r.Args.Text)
		}
		return plural(r, "machine", "machines") + " " + hasOrHave(r) + " no container engine"
	},
	ReasonUnknownResources: func(r Reason) string {
		return fmt.Sprintf("%s %s not reported %s", plural(r, "machine", "machines"), hasOrHave(r), cmp.Or(r.Args.Text, "resources"))
	},
	ReasonCPU:    missingResources,
	ReasonMemory: missingResources,
	ReasonGPUs: func(r Reason) string {
		return fmt.Sprintf("needs %d GPUs, %d free", r.Args.Need, r.Args.Have)
	},
	ReasonNoHostNumber: func(r Reason) string {
		return "node network " + r.Args.Text + " has no free address" // freed ones rest for AddressRest
	},
	ReasonTaken: func(r Reason) string { return "another worker of this run is there" },
	ReasonNotMounted: func(r Reason) string {
		return fmt.Sprintf("data location %s is not mounted on %s", r.Args.Path, r.whereOr("the machines"))
	},
	ReasonMissingNFS: func(r Reason) string {
		return fmt.Sprintf("drive %s cannot be mounted from %s: %s", r.Args.Drive, r.Args.Machine, r.Args.Text)
	},
	ReasonNoAddress: func(r Reason) string {
		return fmt.Sprintf("drive %s cannot be mounted from %s: %s", r.Args.Drive, r.Args.Machine,
			cmp.Or(r.Args.Text, "a machine's address is not known yet"))
	},
	ReasonSourceAway: func(r Reason) string {
		return fmt.Sprintf("drive %s: source %d is on machine %s which is %s",
			r.Args.Drive, r.Args.Source, r.Args.Machine, cmp.Or(r.Args.State, "Down"))
	},
	ReasonVolumeElsewhere: func(r Reason) string {
		return fmt.Sprintf("volume %s is on machine %s", r.Args.Drive, r.Args.Machine)
	},
	ReasonVolumeAway: func(r Reason) string {
		return fmt.Sprintf("volume %s is on machine %s which is %s", r.Args.Drive, r.Args.Machine, cmp.Or(r.Args.State, "Down"))
	},
	ReasonNoMachines: func(r Reason) string { return "the org " + r.Args.Text + " has no machines" },
	ReasonTooFew: func(r Reason) string {
		return fmt.Sprintf("needs %d machines at once, %d can take a worker now", r.Args.Need, r.Args.Have)
	},
	ReasonForbidden: func(r Reason) string { return r.Args.Text },
	ReasonNoMountPath: func(r Reason) string {
		return fmt.Sprintf("Invalid task: data volume %s: mount_path must be absolute", r.Args.Drive)
	},
	ReasonBackoff: func(r Reason) string {
		text := fmt.Sprintf("restarts after %s (attempt %d)", r.Args.Text, r.Args.Need)
		if r.Args.Why != "" {
			text += ": " + r.Args.Why
		}
		return text
	},
	ReasonDriveDeleted: func(r Reason) string { return fmt.Sprintf("drive %s does not exist", r.Args.Drive) },
	ReasonStopping:     func(r Reason) string { return "its older workers are being stopped first" },
	ReasonMounting: func(r Reason) string {
		return fmt.Sprintf("waiting for %s to be mounted from %s (%s)", r.Args.Drive, r.Args.Machine, r.Args.State)
	},
	ReasonFilling: func(r Reason) string {
		return fmt.Sprintf("Waiting for drive %s to be filled on %s", r.Args.Drive, r.whereOr("the machines"))
	},
	ReasonCreatingCopy: func(r Reason) string {
		return fmt.Sprintf("waiting for the copy of %s to be made on %s", r.Args.Drive, r.whereOr("the machines"))
	},
	ReasonCreatingDir: func(r Reason) string {
		return fmt.Sprintf("waiting for %s of drive %s to be made on %s", r.Args.Path, r.Args.Drive, r.whereOr("the machines"))
	},
	ReasonStarting: func(r Reason) string { return "waiting to start on " + r.whereOr("the machines") },
	ReasonLost: func(r Reason) string {
		if r.Args.Drive != "" {
			return fmt.Sprintf("lost on %s; may still be writing %s", r.Args.Machine, r.Args.Drive)
		}
		return "lost on " + r.Args.Machine
	},
	ReasonStepFailed: func(r Reason) string {
		return fmt.Sprintf("%s on %s: %s", r.Args.State, r.whereOr("the machines"), r.Args.Text)
	},
}

func plural(r Reason, one, many string) string {
	if name := r.where(); name != "" {
		return one + " " + name
	}
	if r.Count > 1 {
		return strconv.Itoa(r.Count) + " " + many
	}
	return "the " + one
}

func isOrAre(r Reason) string {
	if r.where() == "" && r.Count > 1 {
		return "are"
	}
	return "is"
}

func hasOrHave(r Reason) string {
	if isOrAre(r) == "are" {
		return "have"
	}
	return "has"
}

func cores(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func compareReasons(a, b Reason) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(string(a.Code), string(b.Code)),
		strings.Compare(a.Message(), b.Message()))
}

// missingResources names everything that a machine has too little of.
func missingResources(r Reason) string {
	a := r.Args
	var parts []string
	if a.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%s CPU cores, %s free", cores(a.Cores), cores(a.Free)))
	}
	if a.Need > 0 {
		parts = append(parts, fmt.Sprintf("%s of memory, %s free", Size(a.Need), Size(a.Have)))
	}
	if a.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs, %d free", a.GPUs, a.FreeGPU))
	}
	return "needs " + strings.Join(parts, ", and ")
}

// firstOf lists so many names and says that there are more.
func firstOf(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}

// MostInSummary bounds the one line that sums a wait up.
const MostInSummary = 6

// Summarize sums grouped reasons up in one line of at most limit reasons (0: all):
// "4 machines: needs 2 GPUs, 0 free; gpu-05: another worker of this run is there".
// Either every reason begins with its machines or, where each sentence names them
// itself or all are about the place that a worker has, none does.
func Summarize(reasons []Reason, limit int) string {
	if len(reasons) == 1 && reasons[0].Count <= 1 {
		return reasons[0].Message() // nearly every wait of a large plan
	}
	if limit <= 0 {
		limit = len(reasons)
	}
	shown := reasons[:min(len(reasons), limit)]
	before := needMachines(reasons)
	var b strings.Builder
	for i, r := range shown {
		if i > 0 {
			b.WriteString("; ")
		}
		text := r.Message()
		if who := r.who(); before && who != "" && !strings.HasPrefix(strings.TrimPrefix(text, "machine "), who) {
			b.WriteString(who + ": ")
		}
		b.WriteString(text)
	}
	if more := len(reasons) - len(shown); more > 0 {
		fmt.Fprintf(&b, "; and %d more reasons", more)
	}
	return b.String()
}

// who is the machines that a reason is about as one line begins with them.
func (r Reason) who() string {
	if r.Count > 1 {
		return strconv.Itoa(r.Count) + " machines"
	}
	return r.where()
}

// needMachines reports whether a list of reasons must say of each which machines
// it is about.
func needMachines(reasons []Reason) bool {
	if len(reasons) == 1 && reasons[0].Count <= 1 {
		return false
	}
	need := false
	for _, r := range reasons {
		switch r.Code {
		case ReasonMounting, ReasonFilling, ReasonCreatingCopy, ReasonCreatingDir, ReasonStarting, ReasonLost, ReasonStepFailed:
			return false // of a worker that has its place
		}
		need = need || r.who() != "" && !strings.Contains(r.Message(), r.who())
	}
	return need
}

// MachineNotFound is what is said of a reference to a machine that the org does not have.
func MachineNotFound(name string) string { return fmt.Sprintf("machine %s not found", name) }

// HostPathForbidden is D-20's sentence.
func HostPathForbidden(path string) string {
	return fmt.Sprintf("spec.sources[].path %q: this namespace may not use that path on the machines", path)
}

// GrantHint says where a grant goes and whom it names (D-20, X-30).
func GrantHint(org, workspace string) string {
	return fmt.Sprintf("let a HostPathGrant in orgs/%s/grants/ cover it for workspace %s", org, workspace)
}

// WhyMessage is the sentence of a step's reason about an object or machine.
func WhyMessage(code WhyCode, what string) string {
	switch code {
	case WhyWorkerNeeds:
		return what + " uses it here"
	case WhyClientNeeds:
		return what + " mounts it from here"
	case WhyPlaced:
		return "placed here"
	case WhyNoUser:
		return "no worker uses it any more"
	case WhyRunRemoved:
		return "the run was removed"
	case WhyRunReplaced:
		return "a newer version of the run replaces it"
	case WhyRestart:
		return "the run restarts"
	case WhyMoved:
		return "the worker is no longer placed here"
	case WhyRunEnded:
		return "the run has ended"
	case WhyDriveRemoved:
		return "the drive was removed"
	case WhyDriveForced:
		return "the drive was deleted on purpose"
	case WhyDiskNearlyFull:
		return "evicted: the disk it is on is nearly full"
	case WhyOverLimit:
		return "evicted: the machine's data location is over its limit"
	case WhySourceDown:
		return "its source is Down and no worker uses it here"
	case WhyChanged:
		return "what is there differs from what is wanted"
	}
	return string(code)
}
