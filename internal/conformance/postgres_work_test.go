package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/store/pgstore"
)

// plan is what auto_explain tells of a statement, and of each of its nodes.
type plan struct {
	Text string   `json:"Query Text"`
	Root planNode `json:"Plan"`
}

type planNode struct {
	Type     string     `json:"Node Type"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	ByFilter float64    `json:"Rows Removed by Filter"`
	ByJoin   float64    `json:"Rows Removed by Join Filter"`
	Plans    []planNode `json:"Plans"`
}

// most is what the node has looked at that looked at most.
func (n planNode) most() float64 {
	most := (n.Rows + n.ByFilter + n.ByJoin) * n.Loops
	for _, p := range n.Plans {
		most = max(most, p.most())
	}
	return most
}

// plans are those that a pool's sessions reported.
type plans struct {
	t    *testing.T
	mu   sync.Mutex
	list []plan
}

func (p *plans) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	_, text, found := strings.Cut(n.Message, "plan:\n")
	if !found {
		return
	}
	var one plan
	if err := json.Unmarshal([]byte(text), &one); err != nil {
		p.t.Errorf("the plan of a statement: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, one)
}

// TestPostgres_WorkPerMessage: what a claim and a settlement look at grows with their messages, and not with
// messages times lanes or messages times messages, whatever becomes of them. A settlement compared each message
// with each lane, which was most of what it cost.
func TestPostgres_WorkPerMessage(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, statistics := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, statistics %t", mode, statistics), func(t *testing.T) {
				t.Parallel()
				workPerMessage(t, mode, statistics)
			})
		}
	}
}

func workPerMessage(t *testing.T, mode string, statistics bool) {
	const messages, each = 500, 8 // each is how often a node of a plan may look at a message, or a lane
	told := &plans{t: t}
	p := newPostgres(t, map[string]string{
		"plan_cache_mode": mode, "session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_timing": "off", "auto_explain.log_format": "json", "auto_explain.log_level": "notice",
	}, pgstore.Config{})
	cfg := p.schema(t)
	config := p.pool.Config()
	config.ConnConfig.OnNotice = told.notice
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	defer pool.Close()
	s, err := pgstore.New(pool, cfg)
	must(t, err)
	lease, err := s.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: patience})
	must(t, err)

	outcomes := map[string]func(st *contract.Settlement){
		"published": func(st *contract.Settlement) { st.Outcome = contract.Published },
		"followed":  func(st *contract.Settlement) { st.Outcome, st.Destinations = contract.Published, []string{"next"} },
		"fanned out": func(st *contract.Settlement) {
			st.Outcome, st.Destinations = contract.Fanout, []string{"a", "b"}
		},
		"waits": func(st *contract.Settlement) { st.Outcome, st.Attempts, st.Error = contract.Wait, 1, "refused" },
		"dead": func(st *contract.Settlement) {
			st.Outcome, st.Attempts, st.Error, st.Reason, st.Park = contract.Dead, 1, "refused", waybill.ReasonRejected, true
		},
	}
	for name, outcome := range outcomes {
		for _, archive := range []bool{true, false} {
			_, err := pool.Exec(t.Context(), fmt.Sprintf(
				"INSERT INTO %s (topic, key) SELECT 'orders', '%s' || i FROM generate_series(1, %d) AS i", tableOf(cfg, "outbox"), waybill.NewID(), messages))
			must(t, err)
			for _, table := range []string{"outbox_waiting", "dead_letters"} {
				_, err := pool.Exec(t.Context(), "DELETE FROM "+tableOf(cfg, table))
				must(t, err)
			}
			if statistics {
				_, err := pool.Exec(t.Context(), "ANALYZE "+tableOf(cfg, "outbox")+", "+tableOf(cfg, "relay_lanes")+", "+tableOf(cfg, "relays"))
				must(t, err)
			}
			told.list = nil
			claims, err := s.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lease.Lanes, Limit: messages})
			must(t, err)
			req := contract.SettleRequest{Node: "r", Archive: archive, Settlements: make([]contract.Settlement, len(claims))}
			for i := range claims {
				req.Settlements[i] = contract.Settlement{Claim: &claims[i]}
				outcome(&req.Settlements[i])
			}
			missed, err := s.SettleMessages(t.Context(), req)
			must(t, err)
			if len(claims) != messages || len(missed) > 0 {
				t.Fatalf("%s: %d claimed, of which %d were not settled, want %d and none", name, len(claims), len(missed), messages)
			}
			if len(told.list) < 2 {
				t.Fatalf("%s: told of %d plans, want those of the claim and the settlement", name, len(told.list))
			}
			for _, one := range told.list {
				if got, want := one.Root.most(), float64(each*(messages+len(lease.Lanes))); got > want {
					t.Errorf("%s, archive %t: %.0f rows looked at for %d messages, want at most %.0f: %s", name, archive, got, messages, want, one.Text)
				}
			}
		}
	}
}
