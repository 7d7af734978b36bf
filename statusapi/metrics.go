package statusapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"astraeus.io/astraeus/planner"
	"astraeus.io/astraeus/schema"
)

// metrics counts what the API does, and shows the state when it is scraped. What
// is said of single mounts is on the machines' own endpoints only.
type metrics struct {
	page     http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	dropped  prometheus.Counter
}

func newMetrics(h *Handler, registry *prometheus.Registry, version string) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "astraeus_http_requests_total", Help: "Requests to the status API, by route, method and status.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "astraeus_http_request_duration_seconds", Help: "How long answers of the status API took; watches are not in it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "astraeus_http_watchers_dropped_total", Help: "Watchers of the status API that did not read what they were sent.",
		}),
	}
	watchers := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "astraeus_http_watchers", Help: "Watchers of the status API.",
	}, func() float64 { return float64(h.hub.count()) })
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "astraeus_build_info", Help: "Which program this is; always 1.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	registry.MustRegister(m.requests, m.seconds, m.dropped, watchers, build, &stateCollector{h},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: writeTimeout / 2})
	return m
}

// answered counts one answer.
func (m *metrics) answered(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if len(route) < 6 || route[len(route)-6:] != "?watch" {
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

// stateCollector shows the newest state.
type stateCollector struct{ h *Handler }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("astraeus_"+name, help, labels, nil)
}

var (
	descLeading  = describe("leading", "1 on the controller that decides.")
	descReady    = describe("ready", "1 while nothing keeps the controller from working.")
	descObjects  = describe("objects", "Objects in force or held, by kind.", "kind")
	descMachines = describe("machines", "Declared machines, by state.", "state")
	descRuns     = describe("runs", "Runs, by phase.", "phase")
	descDrives   = describe("drives", "Drives in force, by state.", "state")
	descMounts   = describe("mounts", "Network mounts, by state.", "state")
	descSteps    = describe("steps", "Steps that machines have not shown as done, by action.", "action")
	descWaits    = describe("waits", "Workers and runs that wait.")
	descHolds    = describe("holds", "Changes that are held back, by code.", "code")
	descErrors   = describe("commit_errors", "Errors of the newest commit.")
)

// Describe implements prometheus.Collector.
func (*stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeading, descReady, descObjects, descMachines, descRuns, descDrives, descMounts, descSteps, descWaits, descHolds, descErrors,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s, err := c.h.current(context.Background())
	if err != nil {
		gauge(descReady, 0)
		return
	}
	gauge(descLeading, truth(s.Leading))
	gauge(descReady, truth(len(s.NotReady) == 0))
	gauge(descWaits, float64(len(s.Plan.Waits)))
	gauge(descErrors, float64(count(s.Diagnostics, func(d schema.Diagnostic) bool { return d.Severity == schema.SeverityError })))
	for _, by := range []struct {
		desc *prometheus.Desc
		n    map[string]int
	}{
		{descObjects, s.byKind()}, {descMachines, s.byMachineState()}, {descRuns, s.byPhase()}, {descDrives, s.byDriveState()},
		{descMounts, tally(s.derived().Claims(), func(m planner.Claim) string { return string(m.State) })},
		{descSteps, tally(s.Plan.Steps, func(x *schema.Step) string { return string(x.Action) })},
		{descHolds, tally(s.Plan.Holds, func(x schema.Hold) string { return string(x.Code) })},
	} {
		for label, n := range by.n {
			gauge(by.desc, float64(n), label)
		}
	}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func tally[T any](list []T, word func(T) string) map[string]int {
	n := map[string]int{}
	for _, x := range list {
		n[word(x)]++
	}
	return n
}

func (s *state) byKind() map[string]int {
	n := map[string]int{}
	for kind, list := range s.kinds {
		n[kind.Word()] = len(list)
	}
	return n
}

func (s *state) byMachineState() map[string]int {
	return tally(s.kinds[schema.KindMachine], func(o *schema.AcceptedObject) string {
		return string(machineFacts{o, s.reports[o.Object.Key.Name]}.state())
	})
}

func (s *state) byPhase() map[string]int {
	n := map[string]int{}
	for _, e := range s.table(runs).entries {
		if v, ok := s.derived().Run(e.key); ok {
			n[string(v.Phase)]++
		}
	}
	return n
}

func (s *state) byDriveState() map[string]int {
	n := map[string]int{}
	for _, o := range s.kinds[schema.KindDrive] {
		if v, ok := s.derived().Drive(o.Object.Key); ok {
			n[string(v.State)]++
		}
	}
	return n
}
