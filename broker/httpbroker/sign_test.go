package httpbroker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// The test vector of the Standard Webhooks specification's reference libraries.
const (
	vectorSecret    = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorPayload   = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var vectorTime = time.Unix(1614265330, 0)

func vectorHeader() http.Header {
	return http.Header{HeaderID: {vectorID}, HeaderTimestamp: {"1614265330"}, HeaderSignature: {vectorSignature}}
}

func vectorKeys(t *testing.T) [][]byte {
	t.Helper()
	keys, err := keysOf([]Secret{vectorSecret})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestSign_Vector(t *testing.T) {
	t.Parallel()
	for _, secret := range []Secret{vectorSecret, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		h := make(http.Header)
		if err := Sign(h, vectorID, vectorTime, []byte(vectorPayload), secret); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h); got != fmt.Sprint(vectorHeader()) {
			t.Errorf("Sign() set %v, want %v", got, vectorHeader())
		}
	}
}

func TestVerify_Vector(t *testing.T) {
	t.Parallel()
	const wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
	for _, c := range []struct {
		name   string
		change func(h http.Header)
		now    time.Time
		want   error
	}{
		{"as signed", nil, vectorTime, nil},
		{"5 minutes old", nil, vectorTime.Add(5 * time.Minute), nil},
		{"more than 5 minutes old", nil, vectorTime.Add(5*time.Minute + time.Second), ErrTimestamp},
		{"6 minutes old", nil, vectorTime.Add(6 * time.Minute), ErrTimestamp},
		{"from the future", nil, vectorTime.Add(-6 * time.Minute), ErrTimestamp},
		{"no id", func(h http.Header) { h.Del("webhook-id") }, vectorTime, ErrSignature},
		{"no timestamp", func(h http.Header) { h.Del("webhook-timestamp") }, vectorTime, ErrSignature},
		{"no signature", func(h http.Header) { h.Del("webhook-signature") }, vectorTime, ErrSignature},
		{"another timestamp", func(h http.Header) { h.Set(HeaderTimestamp, "1614265331") }, vectorTime, ErrSignature},
		{"another id", func(h http.Header) { h.Set(HeaderID, "msg_other") }, vectorTime, ErrSignature},
		{"wrong signature", func(h http.Header) { h.Set(HeaderSignature, wrong) }, vectorTime, ErrSignature},
		{"one of several", func(h http.Header) {
			h.Set(HeaderSignature, strings.Join([]string{wrong, "v2," + vectorSignature[3:], vectorSignature, wrong}, " "))
		}, vectorTime, nil},
		{"of another version", func(h http.Header) { h.Set(HeaderSignature, "v2,"+vectorSignature[3:]) }, vectorTime, ErrSignature},
		{"too many", func(h http.Header) { h.Set(HeaderSignature, strings.Repeat(wrong+" ", 16)+vectorSignature) }, vectorTime, ErrSignature},
		{"id twice", func(h http.Header) { h.Add(HeaderID, vectorID) }, vectorTime, ErrSignature},
		{"timestamp with a sign", func(h http.Header) { h.Set(HeaderTimestamp, "+1614265330") }, vectorTime, ErrSignature},
		{"no base64", func(h http.Header) { h.Set(HeaderSignature, "v1,***") }, vectorTime, ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := vectorHeader()
			if c.change != nil {
				c.change(h)
			}
			if err := verify(h, []byte(vectorPayload), c.now, 0, vectorKeys(t)); !errors.Is(err, c.want) {
				t.Errorf("verify() = %v, want %v", err, c.want)
			}
		})
	}
	if err := verify(vectorHeader(), []byte(vectorPayload+" "), vectorTime, 0, vectorKeys(t)); !errors.Is(err, ErrSignature) {
		t.Errorf("verify() = %v for another payload, want ErrSignature", err)
	}
}

// TestVerify_MovedStop moves the full stops: one who could choose an id could have a signature
// for another message.
func TestVerify_MovedStop(t *testing.T) {
	t.Parallel()
	h := make(http.Header)
	at := vectorTime
	if err := Sign(h, "a", at, []byte("1614265330.payload"), vectorSecret); err != nil {
		t.Fatal(err)
	}
	h.Set(HeaderID, "a.1614265330")
	if err := verify(h, []byte("payload"), at, 0, vectorKeys(t)); !errors.Is(err, ErrSignature) {
		t.Errorf("verify() = %v, want ErrSignature", err)
	}
	if err := Sign(make(http.Header), "a.b", at, nil, vectorSecret); !waybill.IsPermanent(err) {
		t.Errorf("Sign() = %v for an id with a full stop, want it refused", err)
	}
}

// TestVerify_Rotation replaces a secret: the sender signs with both, receivers know the old one,
// both, or the new one.
func TestVerify_Rotation(t *testing.T) {
	t.Parallel()
	before, after := NewSecret(), NewSecret()
	h, payload := make(http.Header), []byte("x")
	if err := Sign(h, "id", time.Now(), payload, after, before); err != nil {
		t.Fatal(err)
	}
	for _, known := range [][]Secret{{before}, {before, after}, {after}} {
		if err := Verify(h, payload, 0, known...); err != nil {
			t.Errorf("Verify() = %v with %d secrets", err, len(known))
		}
	}
	if err := Verify(h, payload, 0, NewSecret()); !errors.Is(err, ErrSignature) {
		t.Errorf("Verify() = %v with another secret, want ErrSignature", err)
	}
}

func TestSecret_Refused(t *testing.T) {
	t.Parallel()
	for _, secret := range []Secret{"", "whsec_", "whsec_short", "whsec_not base64 at all, not at all!", "whsec_" + Secret(strings.Repeat("A", 88))} {
		err := Verify(vectorHeader(), nil, 0, secret)
		if !waybill.IsPermanent(err) {
			t.Errorf("Verify() = %v for a secret of %d bytes, want it refused", err, len(secret))
		}
		if len(secret) > 6 && strings.Contains(fmt.Sprint(err), string(secret[6:])) {
			t.Errorf("the error %q shows the secret", err)
		}
	}
	if err := Verify(vectorHeader(), nil, 0); !waybill.IsPermanent(err) {
		t.Errorf("Verify() = %v without secrets, want it refused", err)
	}
}

func TestSecret_Hidden(t *testing.T) {
	t.Parallel()
	cfg := Config{Endpoints: []Endpoint{{Secrets: []Secret{vectorSecret}}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, cfg); strings.Contains(text, "MfKQ9") {
			t.Errorf("printed with %s the secret is shown", format)
		}
	}
}

// FuzzVerify looks for headers that verify although they were not signed, and for panics.
func FuzzVerify(f *testing.F) {
	f.Add(vectorID, "1614265330", vectorSignature, vectorPayload)
	f.Add("a.b", "-1", "v1, v1,= v1a,x", "")
	f.Add("", "99999999999999999999", strings.Repeat(" ", 20), "\x00")
	keys, err := keysOf([]Secret{vectorSecret})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, timestamp, signature, payload string) {
		h := http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signature}}
		err := verify(h, []byte(payload), vectorTime, 0, keys)
		if err == nil && (id != vectorID || payload != vectorPayload || timestamp != "1614265330") {
			t.Errorf("verified %q at %q with %q", id, timestamp, signature)
		}
		if err != nil && !errors.Is(err, ErrSignature) && !errors.Is(err, ErrTimestamp) {
			t.Errorf("verify() = %v, want ErrSignature or ErrTimestamp", err)
		}
	})
}
