package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// staff declares the workspace with members "ann: member, …" and the org with an admin.
func staff(members ...string) string {
	var list []string
	for _, m := range members {
		user, role, _ := strings.Cut(m, ": ")
		list = append(list, fmt.Sprintf("{user: %s, role: %s}", user, role))
	}
	return "---\nkind: Workspace\nmetadata: {name: research}\nspec: {members: [" + strings.Join(list, ", ") + "]}\n" +
		"---\nkind: Org\nmetadata: {name: acme}\nspec: {admins: [root]}\n"
}

// owned gives every object of a text an owner.
func owned(owner, text string) string {
	return strings.ReplaceAll(text, "metadata: {name: ", "metadata: {owner: "+owner+", name: ")
}

var people = staff("ann: member", "ben: member", "vic: viewer", "ed: editor", "ada: admin")

// A member's run cannot mount another member's volume, an editor's, an admin's and
// an org admin's can; what it may not mount is not there: V-6, R-1, X-32.
func TestV6MembersAndOwners(t *testing.T) {
	volume := owned("ann", shared("a", idA, "/data/a")) + owned("ben", shared("b", idB, "/data/b")) + owned("ed", shared("e", "", "/data/e"))
	s := settled(t, people+volume)
	for owner, held := range map[string]bool{"ann": false, "ben": true, "ed": false, "ada": false, "root": false} {
		p := s.next(t, people+volume+owned(owner, user("r", "name: a")))
		if !held {
			require.Nil(t, holdOn(p, "run/r"), "%s: %s", owner, planText(p))
			continue
		}
		hold := holdOn(p, "run/r")
		require.Equal(t, volumeNotFound, hold.Message)
		require.Equal(t, 404, hold.Status)
		require.Equal(t, "it may mount: b ("+idB+")", hold.Hint, "its own, and no other member's")
	}
	absent := holdOn(s.next(t, people+volume+owned("ben", user("r", "name: none"))), "run/r")
	foreign := holdOn(s.next(t, people+volume+owned("ben", user("r", "volume_id: "+idA))), "run/r")
	require.Equal(t, absent, foreign, "nothing tells them apart")
}

// With members in use an object's owner is somebody who may have it.
func TestX32Owners(t *testing.T) {
	s := settled(t, people)
	run, volume := user("r", "host_path: /data/x"), shared("v", idA, "/data/v")
	group := "---\nkind: ReplicaGroup\nmetadata: {name: g}\nspec: {replicas: 1, task_template: {command: sh}}\n"
	for _, c := range []struct{ text, key, message string }{
		{run, "run/r", "metadata.owner: workspace research lists its members; say whose run this is"},
		{group, "replica_group/g", "metadata.owner: workspace research lists its members; say whose replica group this is"},
		{volume, "volume/v", "metadata.owner: workspace research lists its members; say whose volume this is"},
		{owned("eve", run), "run/r", `metadata.owner "eve": no member of workspace research`},
		{owned("vic", volume), "volume/v", `metadata.owner "vic": a viewer of workspace research may not add a volume`},
		{owned("ann", drives(1, placedSource)), "drive/d0", `metadata.owner "ann": a member of workspace research may not add a drive`},
		{owned("ann", run) + owned("ann", volume) + owned("ann", group), "", ""},
		{owned("ed", drives(1, placedSource)), "", ""},
		{drives(1, placedSource), "", ""},
	} {
		p := s.next(t, people+c.text)
		if c.key == "" {
			require.Empty(t, p.Holds, planText(p))
			continue
		}
		hold := holdOn(p, c.key)
		require.NotNil(t, hold, planText(p))
		require.Equal(t, []any{c.message, 403, schema.CodeForbidden, "metadata.owner"}, []any{hold.Message, hold.Status, hold.Code, hold.Field})
	}

	// It is judged when the object is new or its owner changes, not later: X-10.
	open := settled(t, run)
	p := open.commit(t, people+run)
	require.Empty(t, p.Holds, planText(p))
	p = open.commit(t, people+strings.Replace(run, "Never", "OnFailure", 1))
	require.Empty(t, p.Holds, planText(p))
	p = open.commit(t, people+owned("eve", run))
	require.Equal(t, 403, holdOn(p, "run/r").Status)
}

// Roles are those from before the commit, also in its later passes: X-32.
func TestX32RolesFromBeforeTheCommit(t *testing.T) {
	volume := owned("ann", shared("a", idA, "/data/a"))
	s := settled(t, people+volume)
	grown := strings.Replace(people, "user: ben, role: member", "user: ben, role: admin", 1)
	text := grown + volume + owned("ben", user("r", "name: a")) + owned("new", user("s", "host_path: /data/x"))
	text = strings.Replace(text, "{user: ada", "{user: new, role: member}, {user: ada", 1)
	s.commit(t, text)
	for range 3 {
		s.tick()
		require.Equal(t, volumeNotFound, holdOn(s.plan, "run/r").Message)
		hold := holdOn(s.plan, "run/s")
		require.Equal(t, `metadata.owner "new": no member of workspace research`, hold.Message)
		require.Equal(t, "roles that a commit gives count from the next commit on", hold.Hint)
	}
	s.commit(t, text)
	require.Empty(t, s.plan.Holds, planText(s.plan))

	// Who loses a role keeps what it has, and gets nothing new.
	fewer := staff("ben: viewer", "ada: admin")
	p := s.commit(t, fewer+volume+owned("ben", user("r", "name: a"))+owned("new", user("s", "host_path: /data/x")))
	require.Empty(t, p.Holds, planText(p))
	require.Equal(t, []string{"/data/a"}, s.pathsOf("r-0"))
	p = s.commit(t, fewer+volume+owned("ben", user("r", "name: a"))+owned("ben", user("again", "name: a")))
	require.Equal(t, 403, holdOn(p, "run/again").Status)
}

// A workspace that is new in the commit is judged by its own members: X-32.
func TestX32NewWorkspace(t *testing.T) {
	s := newSim(upMachine("gpu-01", "192.0.2.1"))
	s.desired = declare(t, "c1", frame+gpuMachines+people+owned("eve", user("r", "host_path: /data/x"))+owned("ann", user("s", "host_path: /data/x")))
	require.True(t, s.converge())
	require.NotNil(t, holdOn(s.plan, "run/r"))
	require.Nil(t, holdOn(s.plan, "run/s"))
}

// A role that is lost while a volume is in use holds what starts anew, as a wait,
// and takes nothing from what runs: X-10, V-6.
func TestV6RoleLostWhileInUse(t *testing.T) {
	volume, run := owned("ann", shared("a", idA, "/data/a")), owned("ed", strings.Replace(user("r", "name: a"), "Never", "Always", 1))
	s := settled(t, people+volume+run)
	demoted := strings.Replace(people, "user: ed, role: editor", "user: ed, role: member", 1)
	s.commit(t, demoted+volume+run)
	require.Empty(t, s.plan.Waits, planText(s.plan))
	require.Equal(t, []string{"/data/a"}, s.pathsOf("r-0"), "what runs keeps its mount")

	s.end(t, "r-0", 0)
	for range 4 {
		s.tick()
	}
	require.Contains(t, planText(s.plan), "wait run/$ns.r r-0: volume not found")
	require.Contains(t, planText(s.plan), "worker=r-0 (withheld)")
	require.Equal(t, []string{"/data/a"}, s.pathsOf("r-0"), "and is never started without it")
	s.commit(t, people+volume+run)
	s.commit(t, people+volume+run)
	require.Empty(t, s.plan.Waits, planText(s.plan))
}

// The 409 names only runs that the volume's owner may see: V-8, V-10.
func TestV8NamesVisibleUsers(t *testing.T) {
	users := owned("ann", user("mine", "name: a")) + owned("ed", user("theirs", "name: a")) + owned("ed", user("more", "name: a"))
	volume := func(path string) string { return owned("ann", shared("a", idA, path)) }
	s := settled(t, people+volume("/data/a")+users)
	p := s.next(t, people+volume("/data/b")+users)
	require.Equal(t, "volume a is used by run/mine and 2 more", holdOn(p, "volume/a").Message)
	p = s.next(t, people+users)
	require.Equal(t, "volume a is used by run/mine and 2 more", holdOn(p, "volume/a").Message)

	s = settled(t, people+owned("ed", shared("a", idA, "/data/a"))+users[:0]+owned("ed", user("theirs", "name: a")))
	p = s.next(t, people+owned("ed", user("theirs", "name: a")))
	require.Equal(t, "volume a is used by run/theirs", holdOn(p, "volume/a").Message, "an editor sees all")
	s = settled(t, people+volume("/data/a")+owned("ed", user("theirs", "name: a")))
	p = s.next(t, people+owned("ed", user("theirs", "name: a")))
	require.Equal(t, "volume a is used by a run", holdOn(p, "volume/a").Message)
}

// A budget of the org's kinds is lifted by an org admin alone, whichever workspace
// the file is in; one of the workspace's kinds by its admin.
func TestR1Allowances(t *testing.T) {
	allow := func(owner string, kind schema.Kind) string {
		return owned(owner, fmt.Sprintf("---\nkind: Deletion\nmetadata: {name: x}\nspec: {allow: {kind: %s, count: 9}}\n", kind))
	}
	s := settled(t, people)
	for _, c := range []struct {
		owner   string
		kind    schema.Kind
		message string
	}{
		{"ada", schema.KindMachine, `metadata.owner "ada": only an admin of org acme may allow the deletion of objects of kind Machine`},
		{"ada", schema.KindHostPathGrant, `metadata.owner "ada": only an admin of org acme may allow the deletion of objects of kind HostPathGrant`},
		{"ada", schema.KindWorkspace, `metadata.owner "ada": only an admin of org acme may allow the deletion of objects of kind Workspace`},
		{"root", schema.KindWorkspace, ""},
		{"ed", schema.KindDrive, `metadata.owner "ed": only an admin of workspace research may lift its deletion budget`},
		{`""`, schema.KindDrive, `metadata.owner "": only an admin of workspace research may lift its deletion budget`},
		{"ada", schema.KindDrive, ""},
		{"root", schema.KindDrive, ""},
	} {
		p := s.next(t, people+allow(c.owner, c.kind))
		if hold := holdOn(p, "deletion/x"); c.message != "" {
			require.NotNil(t, hold, "%v", c)
			require.Equal(t, []any{c.message, 403}, []any{hold.Message, hold.Status})
		} else {
			require.Nil(t, hold, "%v: %s", c, planText(p))
		}
	}
	// An accepted one cannot be widened to the org's kinds afterwards.
	s.commit(t, people+allow("ada", schema.KindDrive))
	p := s.commit(t, people+allow("ada", schema.KindMachine))
	require.Equal(t, 403, holdOn(p, "deletion/x").Status)

	// The hint of a removal over the budget names somebody who may.
	s = settled(t, people+drives(12, placedSource))
	p = s.next(t, people)
	require.Contains(t, holdOn(p, "drive/d0").Hint, `metadata: {name: "allow-drives", owner: "ada"}`)
}
