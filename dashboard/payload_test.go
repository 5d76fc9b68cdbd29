package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

const script = `<script>alert("xss")</script>`

// hostile is a letter whose every text wants to be code.
func hostile(payload []byte) *fake {
	f := full()
	l := &f.letters[0]
	l.Message = waybill.Message{
		ID: "m1" + script, Topic: `"><img src=x onerror=alert(1)>`, Type: "javascript:alert(1)", Source: script, Tenant: script, Key: "'\"><" + script,
		Subject: script, ContentType: script, CorrelationID: script, CausationID: "\r\nSet-Cookie: a=b", Payload: payload,
		Headers: map[string]string{script: script, "x\r\nSet-Cookie: a=b": "\r\n\r\n" + script},
	}
	l.Error, l.Consumer, l.Destination, l.Fingerprint, l.Reason = script+"\x00\xff\u202e", script, script, `"&'<>`, waybill.Reason(script)
	l.History[0].Error, l.History[0].Node = script, script
	f.stats[0].Topic = script
	f.entries[0].By, f.entries[0].Why, f.entries[0].Detail, f.entries[0].MessageID = script, script, script, script
	return f
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	f := hostile([]byte(script))
	d := newDashboard(t, testConfig(t, f))
	requests := []asked{
		{path: "/messages?id=" + url.QueryEscape(f.letters[0].Message.ID)},
		{path: "/dead/list?consumer=" + url.QueryEscape(script) + "&since=" + url.QueryEscape(script)},
		{path: "/dead/list?topic=" + url.QueryEscape(`" autofocus onfocus=alert(1) x="`)},
		{path: "/audit?by=" + url.QueryEscape(script)},
		{path: "/?done=" + url.QueryEscape(script)},
		{path: "/" + url.PathEscape(script)},
		{method: http.MethodPost, path: "/dead/1/reveal", form: url.Values{}},
		{method: http.MethodPost, path: "/dead/1/edit", form: url.Values{}},
		{method: http.MethodPost, path: "/dead/1/save", form: url.Values{"type": {script}, "headers": {script}, "payload": {script}, "address": {script}}},
		{method: http.MethodPost, path: "/login", form: url.Values{"token": {script}, "next": {script}}},
	}
	for _, path := range views {
		requests = append(requests, asked{path: path})
	}
	for _, a := range requests {
		a.token = secrets["seer"]
		w := a.send(d)
		body := w.Body.String()
		if lower := strings.ToLower(body); strings.Contains(lower, "<script>") || strings.Contains(lower, "<img") || strings.Contains(lower, `" onfocus`) || strings.Contains(lower, `href="javascript`) {
			t.Errorf("%s %s: data has become markup", a.method, a.path)
		}
		checkHTML(t, a.path, body)
		if w.Header().Get("Set-Cookie") != "" || w.Code >= 500 {
			t.Errorf("%s %s: status %d, cookie %q", a.method, a.path, w.Code, w.Header().Get("Set-Cookie"))
		}
	}
}

func TestReveal_HarmlessWhateverThePayload(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		payload []byte
		want    string
	}{
		{"JSON", []byte(`{"a":[1,2]}`), "&#34;a&#34;: ["},
		{"markup", []byte(script), "&lt;script&gt;"},
		{"invalid UTF-8", []byte("abc\xff\xfe"), "61 62 63 ff fe"},
		{"control characters", []byte("a\x00\x1b[31m"), "61 00 1b"},
		{"5 MB of text", bytes.Repeat([]byte("<"), 5<<20), "Shown are the first 128.0 KiB of 5.0 MiB"},
		{"5 MB of bytes", bytes.Repeat([]byte{0xff}, 5<<20), "Shown are the first 8.0 KiB of 5.0 MiB"},
		{"deep JSON", []byte(strings.Repeat("[", 9000) + strings.Repeat("1,", 9000) + "1" + strings.Repeat("]", 9000)), "[[[["},
		{"nothing", nil, "The payload is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := full()
			f.letters[0].Message.Payload = tt.payload
			w := asked{method: http.MethodPost, path: "/dead/1/reveal", token: secrets["seer"], form: url.Values{}}.send(newDashboard(t, testConfig(t, f)))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("status %d, want a page with %q", w.Code, tt.want)
			}
			if w.Body.Len() > 1<<20 {
				t.Errorf("the page has %d bytes", w.Body.Len())
			}
			checkHTML(t, tt.name, w.Body.String())
		})
	}
}

func TestReveal_IsAudited(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	post := asked{method: http.MethodPost, path: "/dead/1/reveal", token: secrets["seer"], form: url.Values{}}
	w := post.send(d)
	if !strings.Contains(w.Body.String(), "secret-amount") || !strings.Contains(w.Body.String(), "secret-user") {
		t.Errorf("status %d, the payload is not shown", w.Code)
	}
	if !strings.Contains(w.Body.String(), "<td>reveal</td><td>seer</td>") {
		t.Error("the page does not show that somebody has just looked")
	}
	last := f.entries[len(f.entries)-1]
	if last.Action != deadletter.ActReveal || last.By != "seer" || last.Letter != 1 || last.MessageID != "m1" {
		t.Errorf("the audit log ends with %+v", last)
	}
	cfg := testConfig(t, f)
	cfg.audit = failingAudit{}
	if w := post.send(newDashboard(t, cfg)); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret-") {
		t.Errorf("what could not be audited was shown: status %d", w.Code)
	}
	cfg.audit = nil
	if w := post.send(newDashboard(t, cfg)); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "secret-") {
		t.Errorf("without an audit log: status %d, want 403", w.Code)
	}
}

type failingAudit struct{}

func (failingAudit) RecordAudit(context.Context, deadletter.Entry) error {
	return errors.New("disk full")
}

func TestEdit(t *testing.T) {
	t.Parallel()
	form := func() url.Values {
		return url.Values{"type": {"order.created"}, "address": {"orders"}, "content_type": {"application/json"}, "schema": {""},
			"headers": {"x-user: ann\r\n"}, "payload": {"{\r\n\"a\": 2}"}, "why": {"typo"}}
	}
	f := full()
	d := newDashboard(t, testConfig(t, f))
	w := asked{method: http.MethodPost, path: "/dead/1/save", token: secrets["seer"], form: form()}.send(d)
	if w.Code != http.StatusSeeOther || len(f.changes) != 1 || f.changes[0] != "edit 1 by seer: typo" {
		t.Fatalf("status %d, changes %v", w.Code, f.changes)
	}
	e := f.edit
	if e.Type != nil || e.Topic != nil || e.To != nil || e.ContentType != nil || string(*e.Payload) != "{\n\"a\": 2}" || (*e.Headers)["x-user"] != "ann" {
		t.Errorf("edit = %+v", e)
	}
	for field, value := range map[string]string{"headers": "no colon", "address": "", "type": strings.Repeat("x", 300)} {
		bad := form()
		bad.Set(field, value)
		before := len(f.changes)
		w := asked{method: http.MethodPost, path: "/dead/1/save", token: secrets["seer"], form: bad}.send(d)
		if w.Code != http.StatusBadRequest || len(f.changes) > before || !strings.Contains(w.Body.String(), "typo") {
			t.Errorf("%s=%q: status %d; want the form again, with what was typed", field, value, w.Code)
		}
	}
	large := form()
	large.Set("payload", strings.Repeat("<", waybill.MaxPayloadLen)) // three bytes each in a form
	if w := (asked{method: http.MethodPost, path: "/dead/1/save", token: secrets["seer"], form: large}).send(d); w.Code != http.StatusSeeOther {
		t.Errorf("the largest payload: status %d", w.Code)
	}
	large.Set("payload", strings.Repeat("<", 2*waybill.MaxPayloadLen))
	if w := (asked{method: http.MethodPost, path: "/dead/1/save", token: secrets["seer"], form: large}).send(d); w.Code != http.StatusBadRequest {
		t.Errorf("too large a form: status %d, want 400", w.Code)
	}
}

// TestEdit_LeavesAlone shows that a payload comes back byte for byte if nobody changes it.
func TestEdit_LeavesAlone(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "\n{\n}\n", "a\r\nb\n", "\xff\x00", "  x  ", "<&>\t"} {
		text, isHex := editable([]byte(payload))
		sent := strings.ReplaceAll(text, "\n", "\r\n") // as browsers do
		if got, err := edited(sent, isHex); err != nil || string(got) != payload {
			t.Errorf("edited(editable(%q)) = %q, %v", payload, got, err)
		}
	}
	if _, err := edited("0g", true); !errors.As(err, new(*waybill.InvalidError)) {
		t.Errorf("edited(0g) = %v, want an error about the payload", err)
	}
}
