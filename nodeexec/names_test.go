package nodeexec

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"astraeus.io/astraeus/schema"
)

const gateway = "10.240.3.1"

// named makes the worker one that looks names up at the gateway.
func (r *rig) named(template schema.TaskTemplate) func(*schema.Assignment) {
	return func(a *schema.Assignment) {
		r.upSteps(a)
		a.Names = &schema.NamesTarget{Domain: "astraeus.local", Gateway: gateway, Network: "10.240.3.0/24"}
		w := &a.Workers[0]
		w.Resolver, w.Template = gateway, r.blob(template)
	}
}

// N-7: a worker on the node network gets its own resolv.conf; a config file of the
// run wins, and a worker on the host network keeps the machine's.
func TestResolvConf(t *testing.T) {
	own := schema.TaskTemplate{Command: "true", ConfigFiles: []schema.ConfigFile{{Path: "/etc/resolv.conf", Content: "nameserver 192.0.2.53\n"}}}
	for name, tc := range map[string]struct {
		template schema.TaskTemplate
		change   func(*schema.Assignment)
		want     string
	}{
		"node network": {schema.TaskTemplate{Command: "true"}, func(*schema.Assignment) {},
			"nameserver 10.240.3.1\nsearch " + ns + ".astraeus.local astraeus.local\noptions ndots:2\n"},
		"its own file":  {own, func(*schema.Assignment) {}, "nameserver 192.0.2.53\n"},
		"its own mount": {schema.TaskTemplate{Command: "true"}, func(a *schema.Assignment) { a.Workers[0].Mounts[0].Target = "/etc/resolv.conf" }, ""},
		"host network":  {schema.TaskTemplate{Command: "true"}, func(a *schema.Assignment) { a.Workers[0].Resolver = "" }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).start()
			defer r.stop()
			r.assign(func(a *schema.Assignment) {
				r.named(tc.template)(a)
				tc.change(a)
			})
			synctest.Wait()
			require.Equal(t, tc.want, r.w.state.Workers[trainID()].Files["/etc/resolv.conf"], name)
		})
	}
}
