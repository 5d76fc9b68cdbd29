package storetest

import (
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseKeyTests() []leaseTest {
	return []leaseTest{
		{"keys with any text", leaseAnyKey, nil}, // AS-45
		{"keys that look alike", leaseAlike, nil},
		{"two sources with one id, two types with one idempotency key", leaseSources, nil},
	}
}

// leaseAnyKey: the answer is about the requested key, and about no other.
func leaseAnyKey(e *leaseEnv) {
	keys := []string{
		":", "/", "%", "%2F", "%3A", "%25", "a:b", "a/b", "a%2Fb", "//", "..", "../a", "?a=b&c", "#a", "a+b", "a b", " ", "\t", "\n", "\r\n", "\x01", "\x7f",
		`"`, `'`, `\`, "`", "{a}", "$1", "?", "*", "a_b", "[a]", "{", "}", ",", "NULL", "null", "0", "-1", "é", "日本語", "☕🚢", "\u202e", "\ufeff", "\U0010ffff",
		strings.Repeat("x", lease.MaxKeyLen), strings.Repeat("é", lease.MaxKeyLen/2), strings.Repeat("🚢", lease.MaxKeyLen/4),
		strings.Repeat("x", lease.MaxKeyLen-1) + "y", strings.Repeat("%", lease.MaxKeyLen),
	}
	e.lifeOfEach(keys)
}

// leaseAlike: keys are compared byte by byte.
func leaseAlike(e *leaseEnv) {
	e.lifeOfEach([]string{
		"key", "KEY", "Key", "key ", " key", "key\t", "key\u200b", // case and blanks
		"caf\u00e9", "cafe\u0301", "cafe", // one letter, composed or not
		"stra\u00dfe", "strasse", "\u0131", "i", "I", "\u212a", "k", "K", // letters that fold
		"1", "01", "1.0", "1e0",
	})
}

// lifeOfEach takes each key through its life, while the others are in other states.
func (e *leaseEnv) lifeOfEach(keys []string) {
	e.Helper()
	leases := make([]lease.Lease, len(keys))
	for i, key := range keys {
		leases[i] = e.begin(key, 1)
	}
	for i, key := range keys {
		e.wantBegin(request(key), lease.Busy, 1)
		e.renew(leases[i], lease.Acquired)
		if i%2 == 0 {
			e.mark(leases[i], lease.Processed)
		} else {
			e.release(leases[i], false, lease.Released)
		}
	}
	for i, key := range keys {
		want := lease.Processed
		if i%2 != 0 {
			want = lease.Released
		}
		e.wantRecord(key, want, 1, 1)
	}
}

func leaseSources(e *leaseEnv) {
	key := func(change func(m *waybill.Message)) string {
		m := msg("1", "k")
		m.IdempotencyKey = "payment-7"
		change(&m)
		k := lease.KeyOf("main", "billing", &m)
		k.Source = m.Source
		return k.String()
	}
	e.lifeOfEach([]string{
		key(func(*waybill.Message) {}),
		key(func(m *waybill.Message) { m.Source = "web" }),
		key(func(m *waybill.Message) { m.Source = "" }),
		key(func(m *waybill.Message) { m.Type = "order.paid" }),
		key(func(m *waybill.Message) { m.IdempotencyKey = "" }),
		key(func(m *waybill.Message) { m.Tenant = "north" }),
		lease.Key{Bus: "main", Group: "shipping", Source: "shop", Alias: "order.created", Message: "payment-7"}.String(),
		lease.Key{Bus: "other", Group: "billing", Source: "shop", Alias: "order.created", Message: "payment-7"}.String(),
	})
}
