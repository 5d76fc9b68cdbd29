package asbbroker

import (
	"strings"
	"testing"
)

func TestSubscriptionName(t *testing.T) {
	t.Parallel()
	if got := subscriptionName("billing.v2"); got != "billing.v2" {
		t.Errorf("a legal name became %q", got)
	}
	seen := make(map[string]string)
	for _, group := range []string{"g.", "g_", "G_", "Größe x", strings.Repeat("x", 200), "*", "billing-x0123456789abcdef"} {
		name := subscriptionName(group)
		if len(name) > maxSubscriptionName || !legalSubscription.MatchString(name) {
			t.Errorf("group %q became %q, which is not legal", group, name)
		}
		if other, taken := seen[name]; taken || name == group {
			t.Errorf("groups %q and %q share %q, or it was not changed", group, other, name)
		}
		seen[name] = group
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	connection, host, err := parseURL("servicebus://root:a%2Fb=@n.example")
	if err != nil || host != "n.example" || connection != "Endpoint=sb://n.example;SharedAccessKeyName=root;SharedAccessKey=a/b=" {
		t.Errorf("parseURL() = %q, %q, %v", connection, host, err)
	}
	for _, bad := range []string{"", "servicebus://n.example", "servicebus://S3@n.example", "SharedAccessKey=S3",
		"Endpoint=sb://n.example;SharedAccessKey=S3", "Endpoint=sb://n.example;SharedAccessKeyName=a;SharedAccessKey=S3;EntityPath=q"} {
		if _, _, err := parseURL(bad); err == nil || strings.Contains(err.Error(), "S3") {
			t.Errorf("parseURL(%q) = %v, want an error without the key", bad, err)
		}
	}
}
