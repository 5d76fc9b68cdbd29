package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const patience = 5 * time.Minute // a browser on a busy machine is slow

// eventually waits until condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// person is somebody at a browser who looks at a stage of their own.
type person struct {
	*testing.T
	b     *Browser
	stage *Stage
	url   string
}

func newPerson(t *testing.T, o Options) *person {
	t.Helper()
	stage, err := NewStage()
	if err != nil {
		t.Fatal(err)
	}
	if err := stage.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- stage.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	patient, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := stage.AwaitTrouble(patient); err != nil {
		t.Fatal(err)
	}
	if err := stage.GiveUp(patient); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(stage.Handler)
	t.Cleanup(server.Close)
	b, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return &person{t, b, stage, server.URL + "/waybill/"}
}

func (p *person) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *person) goTo(path string) {
	p.Helper()
	p.must(p.b.Go(p.Context(), p.url+path))
}

// click clicks on an element, once more if a live update has just replaced it.
func (p *person) click(xpath string) {
	p.Helper()
	var err error
	for range 10 {
		if err = p.b.Click(p.Context(), xpath); err == nil || !strings.Contains(err.Error(), "stale element") {
			break
		}
	}
	p.must(err)
}

func (p *person) signIn(secret string) {
	p.Helper()
	p.goTo("login")
	p.must(p.b.Type(p.Context(), "//input[@id='token']", secret))
	p.click("//button[contains(., 'Sign in')]")
	p.sees("Overview")
}

// sees waits until the page shows a text.
func (p *person) sees(text string) {
	p.Helper()
	shown := ""
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; !strings.Contains(shown, text); <-tick.C {
		if time.Now().After(deadline) {
			p.Fatalf("the page does not show %q but\n%s", text, shown)
		}
		// The page may be loading the next one.
		shown, _ = p.b.Text(p.Context(), "//body")
	}
}

func (p *person) run(script string, result any) {
	p.Helper()
	p.must(p.b.Run(p.Context(), script, result))
}

// noComplaints fails if the browser has had something to complain about, such as a script
// that the content security policy forbids.
func (p *person) noComplaints() {
	p.Helper()
	list, err := p.b.Complaints(p.Context())
	p.must(err)
	for _, line := range list {
		p.Errorf("the browser complains: %s", line)
	}
}

// TestDashboard_BackToBed is the night of an operator: find a dead group, look at one letter,
// preview, replay, and watch it drain.
func TestDashboard_BackToBed(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.sees("16\ndead letters")
	p.click("//section[@id='dead-part']//a[contains(@aria-label, '12 letters of order.created')]")
	p.sees("no queue is bound")
	p.click("(//tbody//td[@class='number']/a)[1]")
	p.sees("Failed in relay after 1 attempt")
	p.click("//button[contains(., 'Show payload')]")
	p.sees("Ann Example")
	p.stage.Repair()
	p.goTo("dead/list?topic=order.created")
	p.click("//a[contains(., 'Replay all that match')]")
	p.sees("12\nletters")
	p.must(p.b.Type(p.Context(), "//input[@id='why']", "the queue is bound again"))
	p.click("//button[contains(., 'Replay 12 letters')]")
	p.sees("Started by ann")
	p.run("window.stayed = true", nil)
	p.sees("done") // by live updates, without a new page
	p.sees("12\nrequeued")
	var stayed bool
	if p.run("return window.stayed === true", &stayed); !stayed {
		t.Error("the page was reloaded")
	}
	eventually(t, "everything but the invoice is published", func() bool { return p.stage.Published() == 52 })
	p.goTo("dead")
	p.sees("invoice.sent")
	if text, err := p.b.Text(t.Context(), "//main"); err != nil || strings.Contains(text, "order.created") {
		t.Errorf("the group is still there: %v\n%s", err, text)
	}
	p.goTo("audit")
	p.sees("the queue is bound again")
	p.sees("reveal")
	p.noComplaints()
}

// TestDashboard_Search finds the messages of one flow, and goes to the life of one of them.
func TestDashboard_Search(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.click("//a[contains(., 'Messages')]")
	p.must(p.b.Type(p.Context(), "//input[@id='correlation']", "cart-3"))
	p.click("//select[@id='status']/option[@value='any']")
	p.click("//button[contains(., 'Search')]")
	p.sees("stock.changed-0004")
	p.click("//td/a[text()='order.created-0004']")
	p.sees("What happened")
	p.sees("dead-lettered")
	p.goTo("")
	p.sees("made") // the checks are, in the background
	p.click("//section[@id='health-part']//a[contains(@href, 'checks')]")
	p.sees("12 messages came back")
	p.goTo("consumers")
	p.click("//td/a[@aria-label='3 letters of reorder']")
	p.sees("502 Bad Gateway")
	p.noComplaints()
}

// TestDashboard_Keys searches, moves, selects and changes the theme without a mouse.
func TestDashboard_Keys(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.must(p.b.Press(t.Context(), "?"))
	p.sees("next and previous row")
	p.must(p.b.Press(t.Context(), escape+"/cart-3"+enter))
	p.sees("stock.changed-0004")
	p.must(p.b.Press(t.Context(), "j"+enter))
	p.sees("What happened")
	p.goTo("dead/list")
	p.must(p.b.Press(t.Context(), "jjkx"))
	p.sees("With the selected letters: 1 of ")
	var theme string
	for _, want := range []string{"light", "dark", "none"} {
		p.click("//button[@id='theme']")
		p.goTo("")
		if p.run("return document.documentElement.dataset.theme ?? 'none'", &theme); theme != want {
			t.Errorf("the theme of the next page is %q, want %q", theme, want)
		}
	}
	p.noComplaints()
}

// The keys as WebDriver names them.
const (
	escape = "\ue00c"
	enter  = "\ue007"
)

// TestDashboard_Phone opens the menu of a narrow screen.
func TestDashboard_Phone(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.must(p.b.Look(t.Context(), 390, false))
	p.goTo("")
	var height float64
	if p.run("return document.querySelector('header.top').getBoundingClientRect().height", &height); height > 72 {
		t.Errorf("the header is %v pixels high, want one row", height)
	}
	p.click("//button[text()='Menu']")
	p.click("//nav//a[contains(., 'Schedules')]")
	p.sees("nightly-invoices")
	p.noComplaints()
}

// TestDashboard_Schedules stops a schedule, runs it by hand, and takes a message back.
func TestDashboard_Schedules(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.click("//nav//a[contains(., 'Schedules')]")
	p.sees("30 4 * * * Europe/Berlin")
	p.click("//td/a[text()='nightly-invoices']")
	p.click("//summary[text()='Pause']")
	p.must(p.b.Type(t.Context(), "//input[@id='why-pause']", "prices are wrong"))
	p.click("//details[@open]//button[contains(., 'Pause')]")
	p.sees("Paused the schedule.")
	p.click("//summary[text()='Run now']")
	p.click("//details[@open]//button[contains(., 'Run now')]")
	p.sees("The schedule runs now")
	eventually(t, "it is published", func() bool { return p.stage.Published() == 41 })
	p.goTo("schedules")
	p.click("//td/a[text()='reminder-1']")
	p.click("//summary[text()='Cancel']")
	p.click("//details[@open]//button[contains(., 'Cancel')]")
	p.sees("Cancelled the message.")
	p.goTo("audit")
	p.sees("prices are wrong")
	p.sees("schedule_cancel")
	p.noComplaints()
}

// TestDashboard_Sagas finds the instance that is stuck, looks at its data and resumes it.
func TestDashboard_Sagas(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.click("//a[contains(., 'Sagas')]")
	p.click("//a[@aria-label='1 instance of order, stuck']")
	p.click("//td/a[text()='4711']")
	p.sees("502 Bad Gateway")
	p.sees("could not be undone")
	p.click("//button[contains(., 'Show data')]")
	p.sees("R-4711")
	p.click("//summary[text()='Resume']")
	p.must(p.b.Type(t.Context(), "//input[@id='why-resume']", "the warehouse is back"))
	p.click("//details[@open]//button[contains(., 'Resume')]")
	p.sees("tries its compensation once more")
	p.sees("saga_resume by ann")
	p.goTo("sagas?status=stuck")
	p.sees("No instance matches")
	p.goTo("sagas/instance?saga=order&key=4712")
	p.click("//summary[text()='Compensate']")
	p.click("//details[@open]//button[contains(., 'Compensate')]")
	p.sees("are being undone")
	eventually(t, "the messages for both are published", func() bool { return p.stage.Published() == 42 })
	p.goTo("audit")
	p.sees("the warehouse is back")
	p.noComplaints()
}

// TestDashboard_Hostile shows that a payload which wants to be code stays a text.
func TestDashboard_Hostile(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.goTo("dead/list?topic=invoice.sent")
	p.click("(//tbody//td[@class='number']/a)[1]")
	p.click("//button[contains(., 'Show payload')]")
	p.sees(Hostile)
	p.goTo("dead/list?topic=%22%3E%3Cscript%3Ewindow.hacked%3Dtrue%3C/script%3E")
	var hacked bool
	if p.run("return window.hacked === true", &hacked); hacked {
		t.Error("the data was run as a script")
	}
	p.noComplaints() // it was not even tried
	p.run("const s = document.createElement('script'); s.textContent = 'window.hacked = true'; document.body.append(s)", nil)
	if p.run("return window.hacked === true", &hacked); hacked {
		t.Error("the content security policy lets inline scripts run")
	}
}

// TestDashboard_Reader shows that somebody with the role reader finds nothing to change, and
// can't by hand.
func TestDashboard_Reader(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(ReaderSecret)
	for _, path := range []string{"", "dead", "dead/list", "dead/1", "messages?id=order.created-0001", "messages?status=Published", "replays", "sagas", "sagas/instance?saga=order&key=4711", "sagas/instance?saga=order&key=4712", "relays", "schedules", "schedules/one?name=sweep-carts", "schedules/one?id=reminder-1", "consumers", "checks", "audit"} {
		p.goTo(path)
		var forms int
		if p.run("return document.querySelectorAll('main form[method=post] button').length", &forms); forms > 0 {
			t.Errorf("%q offers %d changes", path, forms)
		}
	}
	p.goTo("dead/1")
	p.sees("you do not have")
	for _, action := range []string{"requeue", "resolve", "discard", "reveal", "edit"} {
		var status int
		p.run(fmt.Sprintf(`return (async () => {
			const form = new URLSearchParams({form: document.querySelector('[name=form]').value, why: 'x'});
			return (await fetch('1/%s', {method: 'POST', body: form})).status;
		})()`, action), &status)
		if status != 403 {
			t.Errorf("POST %s: status %d, want 403", action, status)
		}
	}
	if letters := p.stage.Published(); letters != 40 {
		t.Errorf("%d messages are published, want the 40 of the beginning", letters)
	}
}

// TestDashboard_WithoutScript reads and operates with plain forms.
func TestDashboard_WithoutScript(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{NoScript: true})
	p.signIn(AdminSecret)
	p.goTo("dead/list?topic=order.created")
	p.click("(//tbody//td[@class='number']/a)[1]")
	p.stage.Repair()
	p.click("//summary[text()='Requeue']")
	p.click("//details[@open]//button[contains(., 'Requeue')]")
	p.sees("Requeued the dead letter.")
	eventually(t, "it is published", func() bool { return p.stage.Published() == 41 })
	p.goTo("dead/list")
	p.click("(//input[@name='number'])[1]")
	p.must(p.b.Type(t.Context(), "//input[@id='why']", "by hand"))
	p.click("//button[@value='resolve']")
	p.sees("1 dead letter changed.")
	p.click("//button[contains(., 'Sign out')]")
	p.sees("Sign in") // before anything else is asked for, or the browser drops the form
	p.goTo("dead")
	p.sees("Sign in")
}

// everyPage are the pages that are checked for what all of them must have.
var everyPage = []string{"", "messages", "messages?id=order.created-0001", "messages?status=Published", "find?q=cart", "find?q=nowhere", "dead", "dead/list", "dead/1", "replays",
	"replays/new?topic=order.created", "sagas", "sagas/instance?saga=order&key=4711", "sagas/instance?saga=order&key=4712", "relays", "schedules", "schedules/one?name=nightly-invoices", "schedules/one?id=reminder-1", "consumers", "checks", "audit", "nothing/there"}

// TestDashboard_ForEverybody checks what people need who use a keyboard, a screen reader, a
// phone, or the dark.
func TestDashboard_ForEverybody(t *testing.T) {
	// Not parallel: a browser needs a machine for itself.
	p := newPerson(t, Options{})
	p.signIn(AdminSecret)
	p.must(p.b.Press(t.Context(), "\ue004"))
	var focused string
	if p.run("return document.activeElement.textContent", &focused); focused != "Skip to content" {
		t.Errorf("the first stop of the keyboard is %q, want the link to the content", focused)
	}
	p.must(p.b.Press(t.Context(), "\ue007"))
	if p.run("return document.activeElement.id", &focused); focused != "main" {
		t.Errorf("that link leads to %q, want main", focused)
	}
	for _, look := range []struct {
		width int
		dark  bool
	}{{1280, false}, {1280, true}, {390, false}} {
		p.must(p.b.Look(t.Context(), look.width, look.dark))
		for _, path := range everyPage {
			p.goTo(path)
			var problems []string
			p.run(inspection, &problems)
			for _, problem := range problems {
				t.Errorf("%q, %d wide, dark: %v: %s", path, look.width, look.dark, problem)
			}
		}
	}
}

// inspection returns what a page lacks: contrast of 4.5 to 1, labels, headings, landmarks,
// headers of tables, and room on a phone.
const inspection = `
const problems = [];
document.querySelectorAll('details').forEach((d) => { d.open = true; });
const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const colour = (text) => text.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const paper = (e) => {
  for (; e; e = e.parentElement) {
    const c = colour(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.closest('.unseen, .skip, option')) continue;
  const a = light(colour(getComputedStyle(e).color)), b = light(paper(e));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) problems.push('contrast ' + contrast.toFixed(2) + ' of "' + e.textContent.trim().slice(0, 40) + '"');
}
for (const e of document.querySelectorAll('input:not([type=hidden]), select, textarea')) {
  if (!e.labels.length && !e.getAttribute('aria-label')) problems.push('no label: ' + e.name);
}
for (const e of document.querySelectorAll('a, button')) {
  if (!e.textContent.trim() && !e.getAttribute('aria-label')) problems.push('no name: ' + e.outerHTML);
}
for (const e of document.querySelectorAll('thead th')) {
  if (e.scope !== 'col' || !e.textContent.trim()) problems.push('header of a table: ' + e.outerHTML);
}
for (const landmark of ['header', 'nav', 'main', 'footer']) {
  if (!document.querySelector(landmark)) problems.push('no ' + landmark);
}
let level = 0;
for (const h of document.querySelectorAll('h1, h2, h3')) {
  if (+h.tagName[1] > level + 1) problems.push('heading out of order: ' + h.textContent);
  level = +h.tagName[1];
}
if (document.documentElement.scrollWidth > innerWidth) problems.push('wider than the screen: ' + document.documentElement.scrollWidth);
if (!document.documentElement.lang || !document.title) problems.push('no language or title');
return problems;
`
