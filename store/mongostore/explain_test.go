package mongostore

import (
	"testing"

	"github.com/waybill-go/waybill/guarantee"
)

func TestDeployment_Facts(t *testing.T) {
	t.Parallel()
	three, one := deployment{Set: "rs0", Hosts: []string{"a", "b"}, Passives: []string{"c"}}, deployment{Set: "rs0", Hosts: []string{"a"}}
	for _, test := range []struct {
		name      string
		of        deployment
		journaled *bool
		least     guarantee.Survives // of the facts
		members   string
		untold    int
	}{
		{"three members", three, new(true), guarantee.NodeLoss, "3", 0},
		{"three members without journal", three, new(false), guarantee.ProcessCrash, "3", 0},
		{"one member", one, new(true), guarantee.PowerLoss, "1", 0},
		{"one member, user without rights", one, nil, guarantee.PowerLoss, "1", 1},
		{"router", deployment{Message: "isdbgrid"}, nil, guarantee.NodeLoss, "", 2},
		{"no replica set", deployment{}, nil, guarantee.PowerLoss, "none", 1},
	} {
		least, untold, members := guarantee.NodeLoss, 0, "not there"
		for _, f := range test.of.facts(test.journaled) {
			if f.Survives == guarantee.Unknown {
				untold++
			} else {
				least = min(least, f.Survives)
			}
			if f.Setting == "members" {
				members = f.Value
			}
		}
		if least != test.least || untold != test.untold || members != test.members {
			t.Errorf("%s: survives %d, %d not told, members %q, want %d, %d, %q",
				test.name, least, untold, members, test.least, test.untold, test.members)
		}
	}
}
