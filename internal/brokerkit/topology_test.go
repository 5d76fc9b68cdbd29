package brokerkit

import (
	"errors"
	"slices"
	"testing"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
)

func TestApply(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	var made []string
	part := func(name string, action broker.Action, err error) Part {
		return Part{Step: broker.Step{Name: name, Action: action}, Make: func() error {
			made = append(made, name)
			return err
		}}
	}
	names := func(steps []broker.Step) (list []string) {
		for _, s := range steps {
			list = append(list, s.Name)
		}
		return list
	}
	parts := []Part{
		part("kept", broker.Keep, nil), part("created", broker.Create, nil), part("in conflict", broker.Conflict, nil), part("added", broker.Add, nil),
		part("refused", broker.Create, wrong), part("ensured", broker.Ensure, nil),
	}
	steps, err := Plan(parts, nil)
	if err != nil || len(made) > 0 || len(steps) != len(parts) {
		t.Errorf("Plan() = %v, %v, and made %v; want all steps and nothing made", steps, err, made)
	}
	steps, err = Apply(parts, nil)
	if want := []string{"kept", "created", "in conflict", "added"}; err != wrong || !slices.Equal(names(steps), want) {
		t.Errorf("Apply() = %v, %v, want what was done before the error", steps, err)
	}
	if want := []string{"created", "added", "refused"}; !slices.Equal(made, want) {
		t.Errorf("made %v, want %v", made, want)
	}
	if steps, err := Apply(parts, wrong); steps != nil || err != wrong || len(made) != 3 {
		t.Errorf("Apply() = %v, %v for a plan that failed, want nothing done", steps, err)
	}
	if steps, err := Apply(slices.Concat(parts[:4], parts[5:]), nil); err != nil || len(steps) != 5 || made[len(made)-1] != "ensured" {
		t.Errorf("Apply() = %v, %v, made %v", steps, err, made)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	got, err := Addresses(consumer.Subscription{Group: "g", Topics: []string{"a", "b"}, To: "q"})
	want := []Address{{Topic: "a", Field: "Subscription.Topics[0]"}, {Topic: "b", Field: "Subscription.Topics[1]"}, {To: "q", Field: "Subscription.To"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Addresses() = %+v, %v, want %+v", got, err, want)
	}
	if got, err := Addresses(consumer.Subscription{}); err == nil {
		t.Errorf("Addresses() = %+v of an empty subscription, want an error", got)
	}
}
