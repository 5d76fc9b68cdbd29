package storetest

import (
	"errors"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
)

// noTxTests pass the zero value for a transaction: a nil interface, or a nil pointer.
func noTxTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"enqueue", enqueueWithoutTx[Tx], nil},
		{"inbox records", recordWithoutTx[Tx], nil},
		{"schedules", scheduleWithoutTx[Tx], []need{schedules}},
		{"recurring schedules", recurringWithoutTx[Tx], []need{schedules}},
		{"sagas", sagaWithoutTx[Tx], []need{keepsSagas}},
	}
}

// wantNoTx expects an error that names tx.
func (e *env[Tx]) wantNoTx(doing string, err error) {
	e.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "tx" {
		e.Errorf("%s without a transaction = %v, want an InvalidError about tx", doing, err)
	}
}

func enqueueWithoutTx[Tx any](e *env[Tx]) {
	for _, unique := range []bool{false, true} {
		w, err := outbox.NewWriter(e.s, outbox.Config{Source: "shop", Unique: unique})
		e.must(err, "NewWriter")
		var none Tx
		for _, n := range []int{1, 2} {
			_, err := w.Enqueue(e.ctx, none, msgs("a", "k", n)...)
			e.wantNoTx("Enqueue", err)
		}
	}
	e.wantNowhere("a1", "a2")
	e.join("r1").claimOnly()
	if isNew := e.transact(true, msg("a1", "k")); !isNew[0] {
		e.Error("the id is remembered of a message that was not stored")
	}
}

func recordWithoutTx[Tx any](e *env[Tx]) {
	var none Tx
	rec := recordOf("1", waybill.DefaultTenant)
	_, err := e.s.AddRecord(e.ctx, none, rec)
	e.wantNoTx("AddRecord", err)
	_, _, err = e.s.FindRecord(e.ctx, none, rec.Key)
	e.wantNoTx("FindRecord", err)
	e.findRecord(rec.Key, false)
	e.addRecords(rec)
	_, err = e.s.RemoveRecords(e.ctx, none, rec.Tenant, 0, 10)
	e.wantNoTx("RemoveRecords", err)
	e.findRecord(rec.Key, true)
}

func scheduleWithoutTx[Tx any](e *env[Tx]) {
	var none Tx
	s, at := e.scheduler(), time.Now().Add(time.Hour)
	_, err := s.At(e.ctx, none, msg("a", "k"), at)
	e.wantNoTx("At", err)
	_, err = s.After(e.ctx, none, msg("a", "k"), time.Hour)
	e.wantNoTx("After", err)
	e.wantNowhere("a")

	e.tx(func(tx Tx) error {
		_, err := s.At(e.ctx, tx, msg("b", "k"), at)
		return err
	})
	_, err = s.Cancel(e.ctx, none, "b")
	e.wantNoTx("Cancel", err)
	_, err = s.Reschedule(e.ctx, none, "b", at.Add(time.Hour))
	e.wantNoTx("Reschedule", err)
	m, err := e.schedules().Scheduled(e.ctx, "b")
	e.must(err, "Scheduled")
	if m.DeliverAt.Sub(at).Abs() > time.Minute {
		e.Errorf("DeliverAt = %v, want %v", m.DeliverAt, at)
	}
}

func recurringWithoutTx[Tx any](e *env[Tx]) {
	s := e.scheduler()
	e.tx(func(tx Tx) error { return s.Put(e.ctx, tx, hourly("sweep", start())) })
	for doing, change := range map[string]func(tx Tx) error{
		"Put":    func(tx Tx) error { return s.Put(e.ctx, tx, hourly("other", start())) },
		"Pause":  func(tx Tx) error { _, err := s.Pause(e.ctx, tx, "sweep"); return err },
		"Resume": func(tx Tx) error { _, err := s.Resume(e.ctx, tx, "sweep"); return err },
		"RunNow": func(tx Tx) error { _, err := s.RunNow(e.ctx, tx, "sweep"); return err },
		"Remove": func(tx Tx) error { _, err := s.Remove(e.ctx, tx, "sweep"); return err },
	} {
		var none Tx
		e.wantNoTx(doing, change(none))
	}
	list, err := e.schedules().Schedules(e.ctx, "", allRows)
	e.must(err, "Schedules")
	if len(list) != 1 || list[0].Name != "sweep" || list[0].Paused {
		e.Errorf("schedules: %+v, want the one of before, not paused", list)
	}
}

func sagaWithoutTx[Tx any](e *env[Tx]) {
	var none Tx
	in := newSaga("1")
	_, err := e.sagas().WriteSaga(e.ctx, none, &in, entryOf(&in, "1"))
	e.wantNoTx("WriteSaga", err)
	_, err = e.sagas().ReadSaga(e.ctx, none, in.ID, true)
	e.wantNoTx("ReadSaga", err)
	e.wantNoSaga(in.ID)
}
