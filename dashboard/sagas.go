package dashboard

import (
	"cmp"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

const (
	instancesOnPage = 50
	changesOnPage   = 200
)

// instanceList is what the page of sagas shows.
type instanceList struct {
	Counts    []saga.Count
	Asked     url.Values // the filter as it was given
	Statuses  []saga.Status
	Filtered  bool
	Instances []saga.Instance
	Next      template.URL // query of the next page
	Wrong     string       // why the filter can't be answered
}

// Given returns a field of the filter as it was given.
func (l instanceList) Given(name string) string { return l.Asked.Get(name) }

func (d *Dashboard) sagas(c *call) error {
	asked := c.r.URL.Query()
	l := instanceList{Asked: asked, Statuses: saga.Statuses}
	if c.who.Tenant == "" {
		var err error
		if l.Counts, _, err = d.counts.get(c.r.Context()); err != nil {
			return err
		}
	}
	f, err := readInstanceFilter(asked)
	var refused *waybill.InvalidError
	if errors.As(err, &refused) {
		l.Wrong, l.Filtered = refused.Field+" "+refused.Reason, true
		return c.show(http.StatusBadRequest, "sagas", "Sagas", l)
	}
	l.Filtered = f != saga.Filter{Before: f.Before}
	f.Limit = instancesOnPage + 1 // one more tells whether there is another page
	if l.Instances, err = c.sagas.Sagas(c.r.Context(), f); err != nil {
		return err
	}
	if len(l.Instances) > instancesOnPage {
		l.Instances = l.Instances[:instancesOnPage]
		next := maps.Clone(asked)
		next.Set("before", strconv.FormatInt(l.Instances[instancesOnPage-1].Number, 10))
		l.Next = template.URL(next.Encode())
	}
	return c.show(http.StatusOK, "sagas", "Sagas", l)
}

// readInstanceFilter reads a filter from a URL.
func readInstanceFilter(q url.Values) (saga.Filter, error) {
	f := saga.Filter{Tenant: q.Get("tenant"), Saga: q.Get("saga"), Key: q.Get("key"), Status: saga.Status(q.Get("status"))}
	if f.Status != "" && !slices.Contains(saga.Statuses, f.Status) {
		return f, invalidField("status", "is none of those in the list")
	}
	if before := q.Get("before"); before != "" {
		n, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return f, invalidField("before", "is not a number")
		}
		f.Before = n
	}
	return f, nil
}

// instancePage is what the page of one instance shows.
type instancePage struct {
	Instance saga.Instance
	Query    template.URL // that names it
	Facts    []fact
	Offers   []offer
	Log      []saga.Entry
	Next     int64 // version behind which the log goes on, 0 if this is all
	confidential
}

func (d *Dashboard) instance(c *call) error {
	page, err := d.readInstance(c, c.r.URL.Query())
	if err != nil {
		return err
	}
	return c.showInstance(page)
}

func (c *call) showInstance(p instancePage) error {
	return c.show(http.StatusOK, "instance", p.Instance.Saga+" "+p.Instance.Key, p)
}

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

func (d *Dashboard) readInstance(c *call, q url.Values) (page instancePage, err error) {
	id, err := instanceID(q)
	if err != nil {
		return page, err
	}
	after := int64(0)
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return page, invalidField("after", "is not a number")
		}
	}
	if page.Instance, err = c.sagas.Saga(c.r.Context(), id); err != nil {
		return page, err
	}
	in := &page.Instance
	page.confidential = confidential{Form: "sagas/reveal", Names: instanceQuery(id)}
	page.Query = template.URL(page.Names.Encode())
	page.Facts = linked(ops.InstanceFacts(in, len(in.Data)), "status", "state", "error", "data")
	page.Offers = c.offers(ops.InstanceVerbs(in), forms[ops.Saga], page.Names)
	if page.Log, err = c.sagas.SagaLog(c.r.Context(), id, after, changesOnPage+1); err != nil {
		return page, err
	}
	if len(page.Log) > changesOnPage {
		page.Log = page.Log[:changesOnPage]
		page.Next = page.Log[changesOnPage-1].Version
	}
	return page, nil
}

// revealInstance shows the data, after it was recorded who looks at it.
func (d *Dashboard) revealInstance(c *call) error {
	page, err := d.readInstance(c, c.r.PostForm)
	if err != nil {
		return err
	}
	in := &page.Instance
	if err := c.reveal(&page.confidential, deadletter.Entry{Detail: in.Saga + " " + in.Key}, in.Data, nil); err != nil {
		return err
	}
	return c.showInstance(page)
}
