package cli

import (
	"context"
	"slices"

	"github.com/waybill-go/waybill/dashboard"
)

// seenAnyway are the subjects that the dashboard itself checks for every view.
var seenAnyway = []string{"pending", "dead letters"}

// forDashboard runs the doctor's checks and returns the findings as the dashboard
// shows them.
func (e examination) forDashboard(ctx context.Context) []dashboard.Finding {
	found, err := e.examine(ctx)
	if err != nil {
		return []dashboard.Finding{{Level: dashboard.Fail, Check: "options", Detail: err.Error(), Advice: "see: waybill doctor"}}
	}
	var list []dashboard.Finding
	for _, f := range found {
		if !slices.Contains(seenAnyway, f.Subject) {
			list = append(list, dashboard.Finding{Level: dashboard.Level(f.Severity), Check: f.Subject, Detail: f.Found, Advice: f.Advice})
		}
	}
	return list
}
