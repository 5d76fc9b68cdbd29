package ops

import (
	"context"
	"strings"

	"github.com/waybill-go/waybill/saga"
)

// InstanceVerbs are the verbs for an instance of a saga.
func InstanceVerbs(in *saga.Instance) []Verb {
	return verbs(Saga, func(v Verb) bool {
		if v.Name == "resume" {
			return in.Status == saga.Stuck
		}
		return in.Status == saga.Running && in.Progress.Turn > 0
	})
}

// StateChange shows the states of an entry of an instance's log, only one if the state
// has not changed.
func StateChange(e *saga.Entry) string {
	if e.From == e.To || e.From == "" {
		return e.To
	}
	return strings.TrimSpace(e.From + " → " + e.To)
}

const entriesAtATime = 1000

// SagaLog reads the whole log of an instance.
func SagaLog(ctx context.Context, store saga.Inspector, id saga.ID) ([]saga.Entry, error) {
	log := []saga.Entry{}
	for after := int64(0); ; after = log[len(log)-1].Version {
		part, err := store.SagaLog(ctx, id, after, entriesAtATime)
		if err != nil {
			return nil, err
		}
		log = append(log, part...)
		if len(part) < entriesAtATime {
			return log, nil
		}
	}
}
