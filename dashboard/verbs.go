package dashboard

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// operatorSource is the source of messages by which an operator resumes an instance.
const operatorSource = "waybill-dashboard"

// ops returns the stores that the person may access by this route.
func (c *call) ops() ops.Stores {
	return ops.Stores{
		Outbox: c.outbox, Letters: c.letters, Inbox: c.inbox, Replays: c.replays, Relays: c.relays, Schedules: c.schedules, Sagas: c.sagas,
		Audit: c.d.all.audit, Source: operatorSource, Observer: c.d.observer,
	}
}

// forms are the paths that the forms of verbs are sent to, by noun, followed by the verb.
var forms = map[ops.Noun]string{
	ops.Letter: "dead/{number}/", ops.Replay: "replays/{number}/", ops.Schedule: "schedules/", ops.Scheduled: "schedules/", ops.Saga: "sagas/",
}

// verbRoutes are those of the verbs for what the store keeps.
func (d *Dashboard) verbRoutes() []route {
	keeps := map[ops.Noun]bool{
		ops.Letter: true, ops.Replay: d.all.replays != nil, ops.Schedule: d.all.schedules != nil, ops.Scheduled: d.all.schedules != nil, ops.Saga: d.all.sagas != nil,
	}
	var routes []route
	for _, v := range ops.Verbs {
		if v.Do == nil || !keeps[v.Noun] {
			continue
		}
		of := ofOneTenant
		if v.Noun == ops.Replay {
			of = ofAllTenants
		}
		routes = append(routes, route{pattern: "POST /" + forms[v.Noun] + v.Name, role: Role(v.Right), of: of, do: func(c *call) error { return c.use(v) }})
	}
	return routes
}

// target reads what a form is about.
func (c *call) target(noun ops.Noun) (t ops.Target, err error) {
	switch noun {
	case ops.Letter, ops.Replay:
		t.Number, err = c.number()
	case ops.Saga:
		t.Instance, err = instanceID(c.r.PostForm)
	case ops.Schedule:
		t.Name = c.r.PostFormValue("name")
	case ops.Scheduled:
		t.Name = c.r.PostFormValue("id")
	}
	return t, err
}

// use executes the verb of a form, and redirects to where its outcome can be seen.
func (c *call) use(v ops.Verb) error {
	t, err := c.target(v.Noun)
	if err != nil {
		return err
	}
	act := c.act()
	if v.MustSay != "" && act.Why == "" {
		return invalidField("why", "is required: say why, or how it was dealt with")
	}
	id := ""
	if v.Audit == deadletter.ActRequeue { // a relay's dead letter is gone then; its message remains to watch
		if l, err := c.letters.DeadLetter(c.r.Context(), t.Number); err == nil {
			id = l.Message.ID
		}
	}
	r, err := v.Do(c.r.Context(), c.ops(), t, act)
	if err != nil {
		return err
	}
	to, q := after(v, t, r, id)
	outcome := "done"
	if !r.Done {
		outcome = "undone"
	}
	q.Set(outcome, v.Name)
	q.Set("of", string(v.Noun))
	return c.redirect(to + "?" + q.Encode())
}

// after returns the page that shows the state of a target afterwards. id is that of the message to watch, if it is
// known.
func after(v ops.Verb, t ops.Target, r ops.Result, id string) (page string, q url.Values) {
	if r.MessageID != "" {
		id = r.MessageID
	}
	if v.Noun == ops.Scheduled && !r.Done {
		id = t.Name
	}
	switch {
	case id != "":
		return "messages", url.Values{"id": {id}}
	case v.Noun == ops.Letter:
		return "dead/" + strconv.FormatInt(t.Number, 10), url.Values{}
	case v.Noun == ops.Replay:
		return "replays/" + strconv.FormatInt(t.Number, 10), url.Values{}
	case v.Noun == ops.Saga:
		return "sagas/instance", instanceQuery(t.Instance)
	case v.Missing: // it no longer exists
		return "schedules", url.Values{}
	}
	return "schedules/one", url.Values{"name": {t.Name}}
}

// notices are what a page says after a change that is not a verb on one object, by the code in the URL. The URL never
// carries a text to be shown.
var notices = map[string]string{
	"edited":  "The corrected copy is pending, and the original is resolved.",
	"started": "The replay was started.",
}

// notice says what was done, by the URL that the change redirected to.
func notice(q url.Values) string {
	for _, v := range ops.Verbs {
		for outcome, done := range map[string]bool{"done": true, "undone": false} {
			if string(v.Noun) == q.Get("of") && v.Name == q.Get(outcome) && v.Do != nil {
				return v.Told("the "+string(v.Noun), ops.Result{Done: done})
			}
		}
	}
	changed, errChanged := strconv.Atoi(q.Get("changed"))
	left, errLeft := strconv.Atoi(q.Get("left"))
	if q.Get("done") != "selected" || errChanged != nil || errLeft != nil {
		return notices[q.Get("done")]
	}
	text := ops.Plural(changed, "dead letter") + " changed."
	if left > 0 {
		text += " " + ops.Plural(left, "dead letter") + " left as they were: pending, settled, gone, or behind an earlier message of their key."
	}
	return text
}

// offer is a verb that the person may use on what a page shows.
type offer struct {
	ops.Verb
	Path   string // below the root
	Fields url.Values
}

// offers are the verbs that the person may use on what a page shows. Its forms are sent to paths below base, with the
// fields.
func (c *call) offers(verbs []ops.Verb, base string, fields url.Values) (list []offer) {
	for _, v := range verbs {
		isForm := v.Do == nil // with the payload in it
		if c.who.Role >= Role(v.Right) && (!isForm || c.canReveal()) {
			list = append(list, offer{v, base + v.Name, fields})
		}
	}
	return list
}

// fact is a fact with a link to more about it.
type fact struct {
	ops.Fact
	Link template.URL // below the root, "" for none
}

// factLinks are the links of the values of facts.
var factLinks = map[string]string{
	"message id": "messages?id=", "causation id": "messages?id=", "last message": "messages?id=",
	"key": "messages?status=any&key=", "correlation id": "messages?status=any&correlation=",
	"topic": "dead/list?topic=", "to": "dead/list?topic=", "group": "dead/list?fingerprint=", "last replay": "replays/", "saga": "sagas?saga=",
}

// linked returns facts as a page shows them, without those in without.
func linked(facts []ops.Fact, without ...string) (list []fact) {
	for _, f := range facts {
		if slices.Contains(without, f.Name) {
			continue
		}
		one := fact{Fact: f}
		if to := factLinks[f.Name]; to != "" {
			one.Link = template.URL(to + url.QueryEscape(f.Value))
		}
		list = append(list, one)
	}
	return list
}

// screen is one thing as a page shows it.
type screen struct {
	ops.Screen
	Facts   []fact
	Offers  []offer
	Form    string       // that requests confidential content, below the root
	Names   url.Values   // its fields, which name the thing
	Headers []string     // their names
	Payload *payloadView // nil until requested
}

// Values are the headers, once they are shown.
func (s screen) Values() map[string]string { return s.Message.Headers }

// SecretName names the confidential content: "payload" or "data".
func (s screen) SecretName() string {
	name, _ := s.Secret()
	return name
}

// screen reads a thing, with its confidential content if looks is set, and omits the facts that the page shows
// elsewhere.
func (c *call) screen(noun ops.Noun, t ops.Target, looks bool, without ...string) (s screen, err error) {
	if s.Screen, err = c.ops().Show(c.r.Context(), noun, t, looks, c.act()); err != nil {
		return s, err
	}
	base := strings.Replace(forms[noun], "{number}", strconv.FormatInt(t.Number, 10), 1)
	switch noun {
	case ops.Schedule:
		s.Names = url.Values{"name": {t.Name}}
	case ops.Scheduled:
		s.Names = url.Values{"id": {t.Name}}
	case ops.Saga:
		s.Names = instanceQuery(t.Instance)
	}
	s.Facts, s.Form = linked(s.Screen.Facts, without...), base+"reveal"
	s.Offers = c.offers(s.Verbs, base, s.Names)
	if s.Message != nil {
		s.Headers = ops.HeaderNames(s.Message)
	}
	if looks {
		_, content := s.Secret()
		view := viewPayload(content)
		s.Payload = &view
	}
	return s, nil
}
