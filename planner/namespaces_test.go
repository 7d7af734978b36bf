package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

// inNamespace moves every object of the test's workspace into another namespace,
// as the loader does when what derives it changes.
func inNamespace(d *schema.Desired, ns string) *schema.Desired {
	moved := map[schema.Key]*schema.Object{}
	for _, o := range d.Objects {
		if o.Key.Kind.InWorkspace() {
			o.Key.Namespace = ns
		}
		moved[o.Key] = o
	}
	d.Objects = moved
	return d
}

// Whatever gives a workspace another namespace, nothing of it is deleted or made
// twice: a cluster renamed or gone, a spec.namespace changed (X-31, G-5).
func TestX31NamespaceStaysWithWhatIsInForce(t *testing.T) {
	text := gpuMachines + drives(2, placedSource) + "---\nkind: Run\nmetadata: {name: r}\nspec: {task_template: {command: sh}}\n"
	for name, change := range map[string]func(*schema.Desired){
		"cluster renamed": func(d *schema.Desired) {
			o := makeObject(schema.KindCluster, "", "", schema.Metadata{Name: "another"}, &schema.ClusterSpec{})
			delete(d.Objects, schema.Key{Kind: schema.KindCluster, Name: testCluster})
			d.Objects[o.Key] = o
		},
		"cluster gone": func(d *schema.Desired) { delete(d.Objects, schema.Key{Kind: schema.KindCluster, Name: testCluster}) },
		"written": func(d *schema.Desired) {
			o := d.Objects[schema.Key{Kind: schema.KindWorkspace, Namespace: testOrg, Name: testSpace}]
			o.Spec.(*schema.WorkspaceSpec).Namespace = "ws-aaaaaaaaaaaa"
			o.Rehash()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(t, text[len(gpuMachines):])
			s.desired = inNamespace(declare(t, "c2", frame+text), "ws-aaaaaaaaaaaa")
			change(s.desired)
			for range 3 {
				s.tick()
				for _, r := range s.plan.Decisions.Remove {
					require.False(t, r.Key.Kind.InWorkspace(), planText(s.plan))
				}
				require.Empty(t, s.plan.Steps, planText(s.plan))
			}
			require.Equal(t, schema.CodeNamespaceTaken, holdOn(s.plan, "drive/d0").Code)
			require.True(t, s.quiet(), planText(s.plan))

			s.desired = declare(t, "c3", frame+text)
			require.True(t, s.converge())
			require.Empty(t, s.plan.Holds, planText(s.plan))
		})
	}
}

// What is decided of one workspace does not depend on the order in which another
// one was looked at.
func TestX31WorkspacesAreJudgedInNoOrder(t *testing.T) {
	s := settled(t, "---\nkind: Workspace\nmetadata: {name: other}\nspec: {namespace: ws-bbbbbbbbbbbb}\n")
	s.desired = declare(t, "c2", frame+gpuMachines+"---\nkind: Workspace\nmetadata: {name: other}\nspec: {namespace: ws-dddddddddddd}\n"+
		"---\nkind: Workspace\nmetadata: {name: fourth}\nspec: {namespace: ws-bbbbbbbbbbbb}\n")
	first := planText(Plan(s.input()))
	for range 30 {
		require.Equal(t, first, planText(Plan(s.input())))
	}
}
