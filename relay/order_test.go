package relay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/waybill-go/waybill"
)

func TestPolicy_Order(t *testing.T) {
	t.Parallel()
	failures := map[string]error{
		"failed":      errors.New("not now"),
		"conflict":    waybill.ConflictError(errors.New("clash")),
		"later":       waybill.RetryAfter(1, errors.New("later")),
		"swallowed":   waybill.ErrSwallowed,
		"given up":    waybill.PermanentError(waybill.ReasonTooLarge, errors.New("never")),
		"published":   nil,
		"unavailable": waybill.UnavailableError(errors.New("down")),
	}
	for _, tc := range []struct {
		topic, key string
		failure    string
		alone      bool
		park       bool
		blocks     bool
	}{
		{topic: "block", key: "k", failure: "failed", blocks: true},
		{topic: "block", key: "k", failure: "given up"},
		{topic: "park", key: "k", failure: "failed", blocks: true},
		{topic: "park", key: "k", failure: "given up", park: true, blocks: true},
		{topic: "park", key: "k", failure: "published"},
		{topic: "park", failure: "given up"},
		{topic: "skip", key: "k", failure: "failed", alone: true},
		{topic: "skip", key: "k", failure: "conflict", alone: true},
		{topic: "skip", key: "k", failure: "later", alone: true},
		{topic: "skip", key: "k", failure: "swallowed", alone: true},
		{topic: "skip", key: "k", failure: "given up"},
		{topic: "skip", failure: "failed"},
		{topic: "other", key: "k", failure: "given up", park: true, blocks: true}, // the default
	} {
		cfg := Config{Order: Park, TopicOrder: map[string]OrderPolicy{"block": Block, "park": Park, "skip": Skip}}
		p := testPolicy(t)
		p.order = cfg.orderOf
		st, settled := p.settle(result{claim: &Claim{Message: waybill.Message{Topic: tc.topic, Key: tc.key}}, err: failures[tc.failure]})
		if !settled || st.Alone != tc.alone || st.Park != tc.park || st.Behind || st.blocks() != tc.blocks {
			t.Errorf("%+v: settlement = %+v, blocks = %v", tc, st, st.blocks())
		}
	}
}

func TestPolicy_OrderOfDirectMessage(t *testing.T) {
	t.Parallel()
	p := testPolicy(t)
	p.order = (&Config{TopicOrder: map[string]OrderPolicy{"billing": Park}}).orderOf
	c := &Claim{Message: waybill.Message{To: "billing", Key: "k"}}
	if st, _ := p.settle(result{claim: c, err: waybill.PermanentError(waybill.ReasonRejected, errors.New("no"))}); !st.Park {
		t.Error("a message sent to a destination is not parked by that destination's policy")
	}
}

func TestPolicy_FailedParksToo(t *testing.T) {
	t.Parallel()
	p := testPolicy(t)
	p.failed, p.order = true, (&Config{Order: Park}).orderOf
	st, _ := p.settle(result{claim: &Claim{Message: waybill.Message{Topic: "t", Key: "k"}, Attempts: 5}, err: errors.New("x")})
	if st.Outcome != Failed || !st.Park {
		t.Errorf("settlement = %+v, want it failed, and its key parked", st)
	}
}

func TestConfig_Order(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"Order", Config{Order: Skip + 1}},
		{"Order", Config{Order: -1}},
		{"TopicOrder", Config{TopicOrder: map[string]OrderPolicy{"t": Skip + 1}}},
		{"TopicOrder", Config{TopicOrder: map[string]OrderPolicy{"": Park}}},
		{"MaxParkedMessages", Config{MaxParkedMessages: -1}},
		{"MaxParkedKeys", Config{MaxParkedKeys: -1}},
	} {
		var invalid *waybill.InvalidError
		if _, err := tc.cfg.withDefaults(); !errors.As(err, &invalid) || invalid.Field != "relay.Config."+tc.field {
			t.Errorf("%+v: %v, want an InvalidError that names %s", tc.cfg, err, tc.field)
		}
	}
	cfg, err := Config{Order: Skip, TopicOrder: map[string]OrderPolicy{"t": Park}}.withDefaults()
	if err != nil || cfg.MaxParkedMessages != 100_000 || cfg.MaxParkedKeys != 10_000 || !cfg.parks() {
		t.Errorf("config = %+v, %v, want the limits' defaults", cfg, err)
	}
}

func TestOrderPolicy_String(t *testing.T) {
	t.Parallel()
	if got, want := fmt.Sprint(Block, Park, Skip, OrderPolicy(7)), "block park skip OrderPolicy(7)"; got != want {
		t.Errorf("written as %q, want %q", got, want)
	}
}
