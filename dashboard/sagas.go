package dashboard

import (
	"cmp"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

const (
	instancesOnPage = 50
	changesOnPage   = 200
)

// instanceList is what the page of sagas shows.
type instanceList struct {
	query
	Counts    []saga.Count
	Statuses  []saga.Status
	Filtered  bool
	Instances []saga.Instance
	Next      template.URL // query of the next page
}

func (d *Dashboard) sagas(c *call) error {
	asked := c.r.URL.Query()
	l := instanceList{query: query{Asked: asked}, Statuses: saga.Statuses}
	if c.who.Tenant == "" {
		var err error
		if l.Counts, _, err = d.counts.get(c.r.Context()); err != nil {
			return err
		}
	}
	f, err := readInstanceFilter(asked)
	if l.refuses(err) {
		l.Filtered = true
		return c.show(http.StatusBadRequest, "sagas", "Sagas", l)
	}
	l.Filtered = f != saga.Filter{Before: f.Before}
	f.Limit = instancesOnPage + 1 // one more tells whether there is another page
	list, err := c.sagas.Sagas(c.r.Context(), f)
	if err != nil {
		return err
	}
	var last *saga.Instance
	if l.Instances, last = pageOf(list, instancesOnPage); last != nil {
		next := maps.Clone(asked)
		next.Set("before", strconv.FormatInt(last.Number, 10))
		l.Next = template.URL(next.Encode())
	}
	return c.show(http.StatusOK, "sagas", "Sagas", l)
}

// readInstanceFilter reads a filter from a URL.
func readInstanceFilter(q url.Values) (f saga.Filter, err error) {
	f = saga.Filter{Tenant: q.Get("tenant"), Saga: q.Get("saga"), Key: q.Get("key"), Status: saga.Status(q.Get("status"))}
	if f.Status != "" && !slices.Contains(saga.Statuses, f.Status) {
		return f, invalidField("status", "is none of those in the list")
	}
	f.Before, err = numberOf(q, "before")
	return f, err
}

// instancePage is what the page of one instance shows.
type instancePage struct {
	screen
	Query template.URL // that names it
	Log   []saga.Entry
	Next  int64 // version after which the log continues, 0 if this is all
}

func (d *Dashboard) instance(c *call) error { return c.showInstance(c.r.URL.Query(), false) }

// revealInstance shows the data, after recording who views it.
func (d *Dashboard) revealInstance(c *call) error { return c.showInstance(c.r.PostForm, true) }

// instanceID reads the name of an instance from a URL or a form.
func instanceID(q url.Values) (saga.ID, error) {
	id := saga.ID{Tenant: cmp.Or(q.Get("tenant"), waybill.DefaultTenant), Saga: q.Get("saga"), Key: q.Get("key")}
	if id.Saga == "" {
		return id, errNoPage
	}
	return id, nil
}

// instanceQuery names an instance.
func instanceQuery(id saga.ID) url.Values {
	return url.Values{"tenant": {id.Tenant}, "saga": {id.Saga}, "key": {id.Key}}
}

// showInstance shows the instance that q names.
func (c *call) showInstance(q url.Values, looks bool) error {
	id, err := instanceID(q)
	if err != nil {
		return err
	}
	after, err := numberOf(q, "after")
	if err != nil {
		return err
	}
	page := instancePage{Query: template.URL(instanceQuery(id).Encode())}
	if page.screen, err = c.screen(ops.Saga, ops.Target{Instance: id}, looks, "status", "state", "error", "data"); err != nil {
		return err
	}
	log, err := c.sagas.SagaLog(c.r.Context(), id, after, changesOnPage+1)
	if err != nil {
		return err
	}
	var last *saga.Entry
	if page.Log, last = pageOf(log, changesOnPage); last != nil {
		page.Next = last.Version
	}
	return c.show(http.StatusOK, "instance", id.Saga+" "+id.Key, page)
}
