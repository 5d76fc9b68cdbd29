package promobserve

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
)

type sagaCounts []saga.Count

func (c sagaCounts) SagaCounts(context.Context) ([]saga.Count, error) { return c, nil }

// gathered returns the samples of a collector by name and values of the labels, in the order of their names.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			found[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return found
}

// How long instances are idle is reported only of those that have not ended.
func TestCollector_Sagas(t *testing.T) {
	t.Parallel()
	got := gathered(t, NewCollector(CollectorConfig{Sagas: sagaCounts{
		{Saga: "order", Status: saga.Running, Count: 3, Idle: time.Minute},
		{Saga: "order", Status: saga.Stuck, Count: 1, Idle: time.Hour},
		{Saga: "order", Status: saga.Completed, Count: 9},
	}}))
	for name, want := range map[string]float64{
		"waybill_sagas order running": 3, "waybill_sagas order stuck": 1, "waybill_sagas order completed": 9,
		"waybill_saga_idle_seconds order running": 60, "waybill_saga_idle_seconds order stuck": 3600,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	if _, ok := got["waybill_saga_idle_seconds order completed"]; ok {
		t.Error("it is reported how idle instances are that have ended")
	}
}

func TestObserver_Sagas(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	for _, status := range slices.Concat(saga.Statuses, []saga.Status{saga.Running}) {
		o.Observe(t.Context(), observe.Event{Op: observe.OpSaga, Name: "order", Status: string(status), Count: 1})
	}
	o.Observe(t.Context(), observe.Event{Op: observe.OpIgnore, Name: "order", Status: "stale", Count: 1})
	got := gathered(t, o)
	for name, want := range map[string]float64{
		"waybill_saga_changes_total order running": 2, "waybill_saga_changes_total order compensating": 1, "waybill_saga_changes_total order stuck": 1,
		"waybill_saga_changes_total order completed": 1, "waybill_saga_changes_total order compensated": 1, "waybill_saga_ignored_total stale order": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
