package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/deadletter"
)

func TestConsumersOf(t *testing.T) {
	t.Parallel()
	now := time.Now()
	group := func(origin deadletter.Origin, consumer, fingerprint string, open int, at time.Time) deadletter.Group {
		return deadletter.Group{Origin: origin, Consumer: consumer, Fingerprint: fingerprint, Open: open, LastFailed: at, Trend: [24]int{23: open}}
	}
	rows := consumersOf([]deadletter.Group{
		group(deadletter.FromRelay, "", "r", 100, now),
		group(deadletter.FromConsumer, "billing", "b1", 5, now.Add(-time.Hour)),
		group(deadletter.FromConsumer, "mailer", "m1", 4, now.Add(-time.Hour)),
		group(deadletter.FromConsumer, "mailer", "m2", 3, now),
	})
	if len(rows) != 2 || rows[0].Name != "mailer" || rows[1].Name != "billing" {
		t.Fatalf("consumersOf() = %+v, want mailer before billing", rows)
	}
	if m := rows[0]; m.Open != 7 || m.Groups != 2 || m.Trend[23] != 7 || !m.LastFailed.Equal(now) || m.Worst.Fingerprint != "m1" {
		t.Errorf("consumersOf() has %+v", m)
	}
}

func TestConsumers(t *testing.T) {
	t.Parallel()
	f := full()
	f.letters[0].Origin, f.letters[0].Consumer = deadletter.FromConsumer, "a&b"
	body := asked{path: "/consumers", token: secrets["reader"]}.send(newDashboard(t, testConfig(t, f))).Body.String()
	checkHTML(t, "/consumers", body)
	if !strings.Contains(body, `href="./dead/list?origin=consumer&amp;consumer=a%26b"`) {
		t.Error("no link to the consumer's letters")
	}
	if !strings.Contains(body, "can't tell") {
		t.Error("the page does not say what it can't tell")
	}
	if strings.Contains(body, "may be more groups") {
		t.Error("it says that there may be more groups")
	}
	for len(f.letters) < groupsShown {
		f.letters = append(f.letters, f.letters[0])
	}
	body = asked{path: "/consumers", token: secrets["reader"]}.send(newDashboard(t, testConfig(t, f))).Body.String()
	if !strings.Contains(body, "may be more groups") {
		t.Error("it does not say that there may be more groups")
	}
}
