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
	ReasonNoDrive: func(r Reason) string { return fmt.Sprintf("drive %s does not exist", r.Args.Drive) },
	ReasonMachineDown: func(r Reason) string {
		return fmt.Sprintf("%s %s %s", plural(r, "machine", "machines"), isOrAre(r), cmp.Or(r.Args.State, "Down"))
	},
	ReasonNotReported: func(r Reason) string {
		if r.where() == "" {
			return "the machines have not reported their disks yet"
		}
		return "machine " + r.where() + " has not reported its disks yet"
	},
	ReasonUnschedulable: func(r Reason) string { return plural(r, "machine", "machines") + " set to schedulable: false" },
	ReasonNoEngine: func(r Reason) string {
		if r.Args.Text != "" {
			return fmt.Sprintf("%s: %s", plural(r, "machine", "machines"), r.Args.Text)
		}
		return plural(r, "machine", "machines") + " " + hasOrHave(r) + " no container engine"
	},
	ReasonUnknownResources: func(r Reason) string {
		return fmt.Sprintf("%s %s not reported %s", plural(r, "machine", "machines"), hasOrHave(r), cmp.Or(r.Args.Text, "resources"))
	},
	ReasonCPU: func(r Reason) string {
		return fmt.Sprintf("needs %s CPU cores, %s free", cores(r.Args.Cores), cores(r.Args.Free))
	},
	ReasonMemory: func(r Reason) string {
		return fmt.Sprintf("needs %s of memory, %s free", Size(r.Args.Need), Size(r.Args.Have))
	},
	ReasonGPUs: func(r Reason) string {
		return fmt.Sprintf("needs %d GPUs, %d free", r.Args.Need, r.Args.Have)
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
		return fmt.Sprintf("waiting for %s to be made on %s", r.Args.Path, r.whereOr("the machines"))
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

// Summarize sums grouped reasons up in one line: "3 of 5 machines: …; 2: …".
func Summarize(reasons []Reason) string {
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		text := r.Message()
		// Some sentences count the machines themselves.
		if many := strconv.Itoa(r.Count) + " machines"; r.Count > 1 && !strings.HasPrefix(text, many) {
			text = many + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
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
	case WhyChanged:
		return "what is there differs from what is wanted"
	}
	return string(code)
}
