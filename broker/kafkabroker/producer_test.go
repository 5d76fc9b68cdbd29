package kafkabroker

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestWatch_Refused: a session is lost when each address was tried three times, with no connection and no
// answer since: one broker of a cluster that is away says nothing about the others.
func TestWatch_Refused(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for name, tc := range map[string]struct {
		between func(w *watch, b *batch)
		lost    bool
	}{
		"nothing":      {func(*watch, *batch) {}, true},
		"a connection": {func(w *watch, _ *batch) { w.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, nil) }, false},
		"an answer":    {func(w *watch, b *batch) { w.producer.answered(w.session, b, 0, &kgo.Record{}, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{URL: "kafka://127.0.0.1:1,127.0.0.1:2"}
			p := &producer{cfg: cfg, topics: newTopics(cfg, nil)}
			s, b := p.begin(make([]contract.Outgoing, 2))
			t.Cleanup(p.close)
			w := &watch{p, s}
			refuse := func(times int) {
				for range times {
					w.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, refused)
				}
			}
			refuse(2*maxStrikes - 1)
			tc.between(w, b)
			refuse(1)
			if s.lost != tc.lost {
				t.Fatalf("the session is lost: %v, want %v", s.lost, tc.lost)
			}
			if !tc.lost {
				return
			}
			<-b.Done()
			err := b.All()[0]
			if !waybill.IsUnavailable(err) || errors.Is(err, contract.ErrConnectionLost) || !errors.Is(err, refused) {
				t.Errorf("result %v, want unavailable by no fault of the message", err)
			}
		})
	}
}
