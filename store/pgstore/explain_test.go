package pgstore

import (
	"testing"

	"github.com/waybill-go/waybill/guarantee"
)

func TestDurability(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		d        durability
		survives guarantee.Survives // at least
		stronger string             // of the weakest
	}{
		{"defaults", durability{"on", "", "on", "on"}, guarantee.PowerLoss, "synchronous_standby_names: a standby that commits wait for"},
		{"not waited for", durability{"off", "", "on", "on"}, guarantee.Nothing, "synchronous_commit: on"},
		{"not synced", durability{"on", "", "off", "on"}, guarantee.ProcessCrash, "fsync: on"},
		{"torn pages", durability{"on", "", "on", "off"}, guarantee.ProcessCrash, "full_page_writes: on"},
		{"standby", durability{"on", "a", "on", "on"}, guarantee.NodeLoss, ""},
		{"standby not waited for", durability{"local", "a", "on", "on"}, guarantee.PowerLoss, "synchronous_standby_names: a standby that commits wait for"},
		{"standby, not synced", durability{"remote_apply", "a", "off", "on"}, guarantee.ProcessCrash, "fsync: on"},
	} {
		weakest := guarantee.Fact{Survives: guarantee.NodeLoss + 1}
		for _, f := range test.d.facts() {
			if f.Survives < weakest.Survives {
				weakest = f
			}
		}
		if weakest.Survives != test.survives || weakest.Stronger != test.stronger {
			t.Errorf("%s: the weakest is %+v, want %d and %q", test.name, weakest, test.survives, test.stronger)
		}
	}
}
