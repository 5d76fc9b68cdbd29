package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// pages are the templates by name, each with the layout around it.
type pages map[string]*template.Template

// view is what every template gets.
type view struct {
	Root         string // relative URL of the overview, with a slash at its end
	Title        string
	Section      string // of the navigation
	Environment  string
	Theme        string // that the person has chosen, "" for the system's
	User         string
	Role         string
	Tenant       string // that the person is limited to, "" for all
	Form         string // token of forms
	Notice       string
	CanOperate   bool
	CanAdmin     bool
	CanReveal    bool
	CanLeave     bool // there is a session to end
	HasReplays   bool
	HasSagas     bool
	HasRelays    bool
	HasSchedules bool
	HasChecks    bool
	HasTraffic   bool
	At           time.Time
	Page         any
}

// whole is a number of a template, which has any type of integer.
func whole(n any) int64 { return reflect.ValueOf(n).Int() }

// says returns a text as a function for templates.
func says(text string) func() string { return func() string { return text } }

func parsePages(assets map[string]asset) (pages, error) {
	funcs := template.FuncMap{
		"ago":     func(t time.Time) string { return ops.Ago(t, time.Now()) },
		"stamp":   func(t time.Time) string { return ops.Moment(&t) },
		"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"count":   func(n any) string { return ops.Count(whole(n)) },
		"plural":  func(n any, noun string) string { return ops.Plural(whole(n), noun) },
		"short":   func(limit int, text string) string { return ops.Short(text, limit) },
		"size":    ops.Size, "age": ops.Age, "ranges": ops.Ranges, "capital": ops.Capital, "bars": bars, "from": ops.From, "lag": ops.Lag, "named": namedTraffic, "groupFrom": ops.GroupFrom,
		"noMessages": says(ops.NoMessages), "outboxEmpty": says(ops.OutboxEmpty), "noLetters": says(ops.NoLetters), "noLetterMatches": says(ops.NoLetterMatches),
		"noReplays": says(ops.NoReplays), "noEntries": says(ops.NoEntries), "noTraffic": says(ops.NoTraffic), "noSchedules": says(ops.NoSchedules), "noScheduled": says(ops.NoScheduled),
		"noInstances": says(ops.NoInstances), "noInstanceMatches": says(ops.NoInstanceMatches),
		"version": version, "cure": cure, "documentation": says(documentation),
		"asset": func(name string) string { return "assets/" + name + "?v=" + assets[name].version },
	}
	layout, err := template.New("layout.html").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := make(pages)
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		page, err := withLayout(layout, file)
		if err != nil {
			return nil, err
		}
		all[name] = page
	}
	return all, nil
}

// cure is the page on which a finding about a subject can be acted upon, "" if there is none.
func cure(subject string) string {
	page, _ := ops.PlaceOf(subject)
	return page
}

// sections say which entry of the navigation a page belongs to.
var sections = map[string]string{
	"overview": "overview", "messages": "messages", "search": "messages", "find": "messages", "groups": "dead", "letters": "dead", "letter": "dead", "edit": "dead",
	"replays": "replays", "preview": "replays", "replay": "replays", "relays": "relays", "consumers": "consumers",
	"checks": "checks", "audit": "audit", "schedules": "schedules", "schedule": "schedules", "sagas": "sagas", "instance": "sagas",
	"sessions": "sessions", "traffic": "traffic",
}

// show renders a page before it sends the first byte, so that a failure is reported as
// one.
func (c *call) show(status int, name, title string, data any) error {
	v := view{
		Root: c.root, Title: title, Section: sections[name], Environment: c.d.cfg.Environment, Theme: theme(c.r),
		Tenant: c.who.Tenant, Notice: notice(c.r.URL.Query()), HasSchedules: c.d.all.schedules != nil, HasSagas: c.d.all.sagas != nil,
		At: time.Now().UTC(), Page: data,
	}
	if v.Tenant == "" { // these are about all tenants
		v.HasTraffic = c.d.traffic != nil
		v.HasReplays, v.HasRelays, v.HasChecks = c.d.all.replays != nil, c.d.all.relays != nil, c.d.cfg.Checks != nil
	}
	if c.who.Name != "" {
		v.User, v.Role, v.Form = c.who.Name, c.who.Role.String(), c.d.formToken(c.who)
		v.CanOperate, v.CanAdmin, v.CanReveal = c.who.Role >= Operator, c.who.Role >= Admin, c.canReveal()
		v.CanLeave = c.who.session != ""
	}
	var page bytes.Buffer
	if err := c.d.pages[name].ExecuteTemplate(&page, "layout.html", v); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = page.WriteTo(c.w) // the client may be gone; there is nobody to report to
	return nil
}

// documentation is the only address outside of the dashboard that pages lead to.
const documentation = "https://github.com/waybill-go/waybill/tree/main/docs"

// theme is the one that the person has chosen by the script, "" for the system's.
func theme(r *http.Request) string {
	if chosen, err := r.Cookie("waybill_theme"); err == nil && (chosen.Value == "light" || chosen.Value == "dark") {
		return chosen.Value
	}
	return ""
}

// version is that of this module in the program, "devel" if it is not known.
func version() string {
	const module = "github.com/waybill-go/waybill"
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}

// asset is a style sheet or script.
type asset struct {
	content []byte
	version string // changes with the content
}

func loadAssets() (map[string]asset, error) {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, err
	}
	all := make(map[string]asset)
	for _, e := range entries {
		content, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		all[e.Name()] = asset{content, hex.EncodeToString(sum[:6])}
	}
	return all, nil
}

// serveAsset sends a style sheet or script to anybody: the page for signing in needs them.
func (d *Dashboard) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	a, ok := d.assets[name]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(a.content))
}

func withLayout(layout *template.Template, file string) (*template.Template, error) {
	page, err := layout.Clone()
	if err != nil {
		return nil, err
	}
	return page.ParseFS(templateFiles, file)
}

// With is the view of a part of a page.
func (v view) With(page any) view {
	v.Page = page
	return v
}
