package statusapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// Names and units are those of Prometheus' conventions, and the page parses.
func TestMetrics(t *testing.T) {
	view := tenants()
	view.Leading = true
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "astraeus_passes_total", Help: "Of the controller."}))
	h := NewHandler(Options{Source: fixed{view: view}, Metrics: registry, Version: "v1.2.3"})
	t.Cleanup(h.Close)
	for _, path := range []string{"/v1/drives", "/v1/drives", "/v1/nothing", "/v1/drives/drive-common"} {
		ask(t, h, http.MethodGet, path)
	}
	ask(t, h, "PROPFIND", "/v1/drives")
	page := ask(t, h, http.MethodGet, "/metrics").Body.String()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	for _, line := range []string{
		"astraeus_leading 1", "astraeus_ready 0", `astraeus_objects{kind="drive"} 5`, `astraeus_machines{state="Up"} 2`,
		`astraeus_build_info{version="v1.2.3"} 1`, `astraeus_http_requests_total{code="200",method="GET",route="drives"} 2`,
		`astraeus_http_requests_total{code="404",method="GET",route="none"} 1`, `astraeus_http_requests_total{code="200",method="GET",route="drives/{name}"} 1`,
		`astraeus_http_requests_total{code="405",method="other",route="none"} 1`, `astraeus_holds{code="VOLUME_IN_USE"} 4`, "astraeus_passes_total 0",
		"astraeus_waits 4", "astraeus_commit_errors 2", "astraeus_http_watchers 0", "astraeus_http_watchers_dropped_total 0",
	} {
		require.Contains(t, page, "\n"+line+"\n")
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				require.NotContains(t, label.GetValue(), markOther, "%s: no label names a tenant's things", name)
			}
		}
	}
	require.Equal(t, 4, testutil.CollectAndCount(h.metrics.seconds), "drives, one drive, metrics, and what is no route")
}
