package dashboard

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill/deadletter"
)

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
