package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"astraeus.io/astraeus/reconciler"
)

// metrics count the passes of this controller.
type metrics struct {
	registry           *prometheus.Registry
	passes, failures   prometheus.Counter
	took, planning     prometheus.Histogram
	connected, fetches prometheus.Gauge
	unwritable         prometheus.Gauge
	last               int64 // number of the newest pass that was counted
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "astraeus_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "astraeus_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // to 8 s
		})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "astraeus_" + name, Help: help})
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		passes:     counter("passes_total", "Looks at the whole of desired and observed state."),
		failures:   counter("pass_failures_total", "Passes that ended in an error; many may be told as one."),
		took:       histogram("pass_duration_seconds", "How long passes took, writing included."),
		planning:   histogram("planning_duration_seconds", "How long planning took in them."),
		connected:  gauge("machines_connected", "Machines whose stream is open here."),
		fetches:    gauge("fetch_failing", "1 while the newest commit cannot be fetched or loaded."),
		unwritable: gauge("store_failing", "1 while the store does not take what a pass decides."),
	}
	m.registry.MustRegister(m.passes, m.failures, m.took, m.planning, m.connected, m.fetches, m.unwritable)
	return m
}

// note counts an update's pass. Updates come one at a time; passes between two of
// them are counted and not measured.
func (m *metrics) note(s reconciler.Status) {
	connected := 0
	for _, machine := range s.Machines {
		if machine.Connected {
			connected++
		}
	}
	m.connected.Set(float64(connected))
	m.fetches.Set(truth(s.FetchError != ""))
	m.unwritable.Set(truth(s.StoreError != ""))
	if s.Pass.Number <= m.last {
		return
	}
	m.passes.Add(float64(s.Pass.Number - m.last))
	m.last = s.Pass.Number
	m.took.Observe(s.Pass.Took.Seconds())
	m.planning.Observe(s.Pass.Planning.Seconds())
	if s.Pass.Err != nil {
		m.failures.Inc()
	}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
