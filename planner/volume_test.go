package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const (
	idA = "vol-000000000000000a"
	idB = "vol-000000000000000b"
)

// shared declares a shared volume; id "" is none in its file.
func shared(name, id, path string) string {
	meta := "name: " + name
	if id != "" {
		meta += ", id: " + id
	}
	return fmt.Sprintf("---\nkind: Volume\nmetadata: {%s}\nspec: {host_path: %s, shared: true}\n", meta, path)
}

func local(name, id, path, machine string) string {
	return strings.Replace(shared(name, id, path), "shared: true", "node_id: "+machine, 1)
}

// user declares a run that mounts volumes, each as "name: a" or "volume_id: …".
func user(name string, volumes ...string) string {
	for i, v := range volumes {
		volumes[i] = fmt.Sprintf("{%s, container_path: /v%d}", v, i)
	}
	return fmt.Sprintf("---\nkind: Run\nmetadata: {name: %s}\nspec: {restart_policy: Never, task_template: {command: sh, volumes: [%s]}}\n",
		name, strings.Join(volumes, ", "))
}

// commit makes another commit and lets it come true.
func (s *sim) commit(t *testing.T, text string) schema.Plan {
	t.Helper()
	s.desired = declare(t, s.desired.Commit+"'", frame+gpuMachines+text)
	first := Plan(s.input())
	require.True(t, s.converge(), planText(s.plan))
	require.Empty(t, s.problems)
	return first
}

func (s *sim) volume(name string) *schema.AcceptedObject {
	return s.accepted.Objects[schema.Key{Kind: schema.KindVolume, Namespace: testNS, Name: name}]
}

// pathsOf are the host paths that a worker is assigned.
func (s *sim) pathsOf(worker string) (paths []string) {
	for _, name := range sortedStrings(s.plan.Targets) {
		for _, w := range s.plan.Targets[name].Workers {
			for _, m := range w.Mounts {
				if w.Name == worker {
					paths = append(paths, m.Path)
				}
			}
		}
	}
	return paths
}

func (s *sim) end(t *testing.T, worker string, code int) {
	t.Helper()
	for _, m := range s.machines {
		for i := range m.Workers {
			if w := &m.Workers[i]; w.Name == worker && !w.State.Ended() {
				w.State, w.ExitCode, w.Ended = schema.WorkerSucceeded, &code, w.Started.Add(1)
				if code != 0 {
					w.State = schema.WorkerFailed
				}
				return
			}
		}
	}
	require.Fail(t, "no worker", worker)
}

// A volume renamed and another given its old name in one commit: both are
// themselves, and no run is given another path: V-2, V-8.
func TestV2RenamedAndItsNameGivenAway(t *testing.T) {
	users := user("by-id", "volume_id: "+idA) + user("by-name", "name: a")
	s := settled(t, shared("a", idA, "/data/one")+users)
	uid := s.volume("a").UID

	s.commit(t, shared("b", idA, "/data/one")+shared("a", idB, "/data/two")+users+user("late", "name: a"))
	require.Equal(t, uid, s.volume("b").UID)
	require.NotEqual(t, uid, s.volume("a").UID)
	require.Equal(t, []string{"/data/one"}, s.pathsOf("by-id-0"))
	require.Equal(t, []string{"/data/one"}, s.pathsOf("by-name-0"), "it goes on with the volume that it was accepted with")
	require.Equal(t, []string{"/data/two"}, s.pathsOf("late-0"))
	require.Contains(t, planText(s.plan), "volume a ("+idA+") is called b now")
	for _, pl := range s.placed {
		require.EqualValues(t, 1, pl.Generation, "nothing was restarted")
	}

	// In use by name is in use.
	p := s.commit(t, shared("b", idA, "/data/three")+shared("a", idB, "/data/two")+users+user("late", "name: a"))
	require.Equal(t, "volume b is used by run/by-id, run/by-name", holdOn(p, "volume/b").Message)
	// What a run mounts anew, it finds by the names of today.
	s.commit(t, shared("b", idA, "/data/one")+shared("a", idB, "/data/two")+user("by-name", "name: a", "name: b"))
	require.Equal(t, []string{"/data/two", "/data/one"}, s.pathsOf("by-name-0"))
}

// Two volumes swap names in one commit: V-2.
func TestV2NamesAreSwapped(t *testing.T) {
	users := user("r", "volume_id: "+idA, "volume_id: "+idB)
	s := settled(t, shared("a", idA, "/data/a")+shared("b", idB, "/data/b")+users)
	uidA, uidB := s.volume("a").UID, s.volume("b").UID
	p := s.commit(t, shared("b", idA, "/data/a")+shared("a", idB, "/data/b")+users)
	require.Empty(t, p.Holds, planText(p))
	require.Empty(t, p.Decisions.Remove)
	require.Equal(t, []string{uidB, uidA}, []string{s.volume("a").UID, s.volume("b").UID})
	require.Equal(t, []string{"/data/a", "/data/b"}, s.pathsOf("r-0"))

	// A circle of three, of which one may not change: none does, and nothing is lost.
	s = settled(t, shared("a", idA, "/data/a")+shared("b", idB, "/data/b")+shared("c", "vol-000000000000000c", "/data/c")+users)
	p = s.commit(t, shared("b", idA, "/data/a")+shared("c", idB, "/data/moved")+shared("a", "vol-000000000000000c", "/data/c")+users)
	require.Equal(t, schema.CodeVolumeInUse, holdOn(p, "volume/c").Code)
	require.Equal(t, schema.CodeNameTaken, holdOn(p, "volume/b").Code, planText(p))
	require.Equal(t, schema.CodeNameTaken, holdOn(p, "volume/a").Code)
	for name, path := range map[string]string{"a": "/data/a", "b": "/data/b", "c": "/data/c"} {
		require.Equal(t, path, s.volume(name).Object.Spec.(*schema.VolumeSpec).HostPath)
	}
	// What stands in the way goes: the rest follows by itself.
	s.commit(t, shared("b", idA, "/data/a")+shared("c", idB, "/data/moved")+shared("a", "vol-000000000000000c", "/data/c"))
	require.Equal(t, "/data/moved", s.volume("c").Object.Spec.(*schema.VolumeSpec).HostPath)
	require.Equal(t, idB, volumeID(s.volume("c")))
	require.Equal(t, idA, volumeID(s.volume("b")))
}

// An id that is in no file is derived once and kept; only a rename needs it: V-2.
func TestV2DerivedIDs(t *testing.T) {
	s := settled(t, shared("a", "", "/data/a")+user("r", "name: a"))
	id := volumeID(s.volume("a"))
	require.Regexp(t, "^vol-[0-9a-f]{16}$", id)
	require.Equal(t, id, s.volume("a").Object.Metadata.ID, "shown")
	s.commit(t, strings.Replace(shared("a", "", "/data/a"), "shared", "capacity_gb: 5, shared", 1)+user("r", "name: a"))
	require.Equal(t, id, volumeID(s.volume("a")))

	p := s.commit(t, shared("b", "", "/data/a")+user("r", "name: a"))
	require.Equal(t, "volume a is used by run/r", holdOn(p, "volume/a").Message)
	require.Equal(t, "to rename it, write `id: \""+id+"\"` into the metadata of its file", holdOn(p, "volume/a").Hint)
	require.NotEqual(t, id, volumeID(s.volume("b")))
	s.commit(t, shared("c", id, "/data/a")+user("r", "name: a"))
	require.Equal(t, id, volumeID(s.volume("c")))
	require.Nil(t, s.volume("a"))
	require.Nil(t, s.volume("b"))

	s.commit(t, shared("c", "", "/data/a")+user("r", "name: a")) // the id leaves the file again
	require.Equal(t, id, volumeID(s.volume("c")))
	require.Equal(t, []string{"/data/a"}, s.pathsOf("r-0"))
}

// Another id makes it another volume, with all that deleting takes: V-2, V-8, V-9.
func TestV2AnotherIDIsAnotherVolume(t *testing.T) {
	s := settled(t, shared("a", idA, "/data/a")+user("r", "name: a"))
	uid := s.volume("a").UID
	p := s.commit(t, shared("a", idB, "/data/a")+user("r", "name: a"))
	hold := holdOn(p, "volume/a")
	require.Equal(t, "volume a is used by run/r", hold.Message)
	require.Equal(t, "the id of volume a is "+idA+": another id makes it another volume", hold.Hint)
	require.Equal(t, idA, volumeID(s.volume("a")))
	require.Equal(t, uid, s.volume("a").UID)

	p = s.commit(t, shared("a", idB, "/data/a"))
	require.Equal(t, schema.CodeVolumeInUse, holdOn(p, "volume/a").Code, "its worker is being stopped")
	require.Equal(t, idB, volumeID(s.volume("a")))
	require.NotEqual(t, uid, s.volume("a").UID)
	var events []string
	s = settled(t, shared("a", idA, "/data/a"))
	for _, e := range s.next(t, shared("a", idB, "/data/a")).Decisions.Events {
		events = append(events, e.Type+": "+e.Message)
	}
	require.Equal(t, []string{"Removed: " + idA + " /data/a: " + volumeRecordGone, "Accepted: created in generation 1"}, events)
}

// An id is one volume's in the whole cluster; whose it is elsewhere is not told: V-2, V-6.
func TestV2IDOfAnotherWorkspace(t *testing.T) {
	elsewhere := "---\nkind: Workspace\nmetadata: {name: serving}\n" + strings.Replace(shared("theirs", idA, "/data/t"), "kind: Volume", "kind: Volume\nworkspace: serving", 1)
	s := settled(t, elsewhere)
	p := s.commit(t, elsewhere+shared("mine", idA, "/data/m"))
	require.Equal(t, "the id "+idA+" is taken", holdOn(p, "volume/mine").Message)
	require.Nil(t, holdOn(p, "volume/theirs"))
	p = s.commit(t, elsewhere+shared("mine", "", "/data/m")+user("r", "volume_id: "+idA))
	require.Equal(t, volumeNotFound, holdOn(p, "run/r").Message)
	require.NotContains(t, holdOn(p, "run/r").Hint, "theirs")
	require.Contains(t, holdOn(p, "run/r").Hint, "mine")
}

// A volume turned shared and back: every check is made again, none while it is used: V-3, V-8.
func TestV3SharedAndBack(t *testing.T) {
	s := settled(t, local("a", idA, "/data/a", "gpu-01"))
	s.commit(t, shared("a", idA, "/data/a"))
	require.True(t, s.volume("a").Object.Spec.(*schema.VolumeSpec).Shared)
	p := s.commit(t, local("a", idA, "/data/a", "gpu-09"))
	require.Equal(t, "machine gpu-09 not found", holdOn(p, "volume/a").Message)
	p = s.commit(t, local("a", idA, "/etc/a", "gpu-02"))
	require.Contains(t, holdOn(p, "volume/a").Message, "denied prefix /etc")
	s.commit(t, local("a", idA, "/data/a", "gpu-02"))
	require.Equal(t, "gpu-02", s.volume("a").Object.Spec.(*schema.VolumeSpec).NodeID)

	s.commit(t, local("a", idA, "/data/a", "gpu-02")+user("r", "name: a"))
	for _, change := range []string{shared("a", idA, "/data/a"), local("a", idA, "/data/a", "gpu-01"), local("a", idA, "/data/b", "gpu-02")} {
		p := s.commit(t, change+user("r", "name: a"))
		require.Equal(t, 409, holdOn(p, "volume/a").Status, change)
	}
	require.Equal(t, "gpu-02", s.volume("a").Object.Spec.(*schema.VolumeSpec).NodeID)
}

// What "in use" means, over accepted and observed state: V-8.
func TestV8InUse(t *testing.T) {
	volume := shared("a", idA, "/data/a")
	group := func(replicas int) string {
		return fmt.Sprintf("---\nkind: ReplicaGroup\nmetadata: {name: g}\nspec: {replicas: %d, restart_policy: Never, task_template: {command: sh, volumes: [{name: a, container_path: /v}]}}\n", replicas)
	}
	big := strings.Replace(user("r", "name: a"), "command: sh", "command: sh, requested_resources: {gpu_requests: {count: 99}}", 1)
	for _, c := range []struct {
		name  string
		first string // declared and carried out with the volume
		ends  map[string]int
		then  string // declared with the volume's removal
		by    string // "" : it goes
	}{
		{"nobody", user("r", "host_path: /data/a"), nil, user("r", "host_path: /data/a"), ""},
		{"a run that waits", big, nil, big, "run/r"},
		{"a run that runs", user("r", "name: a"), nil, user("r", "name: a"), "run/r"},
		{"a run that has ended", user("r", "name: a"), map[string]int{"r-0": 0}, user("r", "name: a"), ""},
		{"a run that has failed", user("r", "name: a"), map[string]int{"r-0": 1}, user("r", "name: a"), ""},
		{"a run that starts to use it now", "", nil, user("r", "name: a"), "run/r"},
		{"a run that goes too", user("r", "name: a"), nil, "", "run/r"},
		{"a group of which one has ended", group(2), map[string]int{"g-0-0": 0}, group(2), "run/g-0, run/g-1"},
		{"a group that is done", group(2), map[string]int{"g-0-0": 0, "g-1-0": 0}, group(2), ""},
		{"a serving group that failed", group(2), map[string]int{"g-0-0": 0, "g-1-0": 1}, group(2), "run/g-0, run/g-1"},
		{"a group that failed and is deleted", group(1), map[string]int{"g-0-0": 1}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settled(t, volume+c.first)
			for worker, code := range c.ends {
				s.end(t, worker, code)
			}
			require.True(t, s.converge())
			p := s.commit(t, c.then)
			if c.by == "" {
				require.Nil(t, holdOn(p, "volume/a"), planText(p))
				require.Nil(t, s.volume("a"))
				return
			}
			require.NotNil(t, holdOn(p, "volume/a"), planText(p))
			require.Equal(t, "volume a is used by "+c.by, holdOn(p, "volume/a").Message)
			require.Equal(t, 409, holdOn(p, "volume/a").Status)
			if strings.Contains(c.then, "kind") {
				require.NotNil(t, s.volume("a"))
			} else {
				require.Nil(t, s.volume("a"), "it goes once the last worker has stopped")
			}
		})
	}
}

// A run that has ended and is to run again uses its volume: V-8.
func TestV8RunThatRunsAgain(t *testing.T) {
	s := settled(t, shared("a", idA, "/data/a")+user("r", "name: a"))
	s.end(t, "r-0", 0)
	require.True(t, s.converge())
	again := strings.Replace(user("r", "name: a"), "command: sh", "command: sh, requested_resources: {gpu_requests: {count: 99}}", 1)
	s.commit(t, shared("a", idA, "/data/a")+again)
	p := s.commit(t, again)
	require.Equal(t, "volume a is used by run/r", holdOn(p, "volume/a").Message)
}

// An older worker that has not stopped yet uses the volume of its own template, and
// so does one that only its machine knows of: V-8.
func TestV8OlderWorkers(t *testing.T) {
	s := settled(t, shared("a", idA, "/data/a")+user("r", "name: a"))
	older := func() (workers []schema.Worker) {
		for _, m := range s.machines {
			workers = append(workers, m.Workers...)
		}
		return workers
	}()
	s.commit(t, shared("a", idA, "/data/a")+user("r", "host_path: /data/b"))
	s.machines["gpu-02"].Workers = append(s.machines["gpu-02"].Workers, older...) // it was thought to have stopped
	p := s.next(t, user("r", "host_path: /data/b"))
	require.Equal(t, "volume a is used by run/r", holdOn(p, "volume/a").Message, planText(p))
	s.placed = map[schema.Key]schema.Placement{}
	p = s.next(t, "")
	require.Equal(t, "volume a is used by run/r", holdOn(p, "volume/a").Message, planText(p))
}
