package main

import "testing"

const samplePlan = `Limit  (cost=1.00..2.00 rows=100 width=760) (actual time=1.760..1.827 rows=100 loops=1)
  Buffers: shared hit=824 read=6 dirtied=2
  ->  Bitmap Heap Scan on outbox o  (cost=5.35..336.33 rows=104 width=710) (actual time=0.204..1.414 rows=1073 loops=1)
        Buffers: shared hit=800
  ->  Seq Scan on outbox_waiting w  (cost=0.00..0.00 rows=1 width=0) (actual time=0.000..0.000 rows=0 loops=100)
  ->  Seq Scan on relay_lanes l  (cost=0.00..0.00 rows=1 width=0) (actual time=0.000..0.000 rows=64 loops=1)
Planning:
  Buffers: shared hit=149
Execution Time: 1.870 ms`

func TestPlan(t *testing.T) {
	t.Parallel()
	if got := planRows(samplePlan); got != 1073 {
		t.Errorf("planRows() = %d, want 1073", got)
	}
	if got := planBuffers(samplePlan); got != 830 {
		t.Errorf("planBuffers() = %d, want 830", got)
	}
	if got := planBuffers("Result\nPlanning:\n  Buffers: shared hit=149"); got != 0 {
		t.Errorf("planBuffers() of a plan without buffers = %d, want 0", got)
	}
	p := plan{sql: `SELECT * FROM "waybill"."outbox" o`, text: samplePlan}
	if f := p.row("x").figures[0]; f.values[0] != 2 || f.verdict() != "not met" {
		t.Errorf("scans not by index = %v, want 2, not met", f)
	}
}

func TestPlan_Name(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		`WITH gone AS (DELETE FROM "waybill"."outbox" o USING input) SELECT lane FROM fence`:                           "settle",
		`WITH gone AS (DELETE FROM "waybill"."outbox" o) INSERT INTO "waybill"."outbox_archive" (id) SELECT`:           "settle, to the archive",
		`DELETE FROM "waybill"."outbox_waiting" w USING x`:                                                             "settle, waiting messages",
		`SELECT * FROM l CROSS JOIN LATERAL (SELECT * FROM "waybill"."outbox" o), "waybill"."outbox_waiting"`:          "claim",
		`SELECT * FROM "waybill"."outbox_waiting" w`:                                                                   "claim, waiting messages",
		`WITH d AS (DELETE FROM "waybill"."scheduled") INSERT INTO "waybill"."outbox" SELECT FROM "waybill"."outbox" `: "release scheduled messages",
	} {
		if got := (&plan{sql: sql}).name(); got != want {
			t.Errorf("name of %s = %q, want %q", sql, got, want)
		}
	}
}
