package sqlstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestLeaders: of each unit the claim that was enqueued first takes along what is behind it, unless it has failed.
func TestLeaders(t *testing.T) {
	t.Parallel()
	claim := func(position int64, key, destination string) contract.Claim {
		return contract.Claim{Position: position, Destination: destination, Message: waybill.Message{Topic: "orders", Key: key}}
	}
	failed, unread, direct := claim(2, "failed", ""), claim(3, "unread", ""), claim(8, "a", "")
	failed.Attempts, unread.Malformed, direct.Message.To = 1, errors.New("no JSON"), "orders2"
	claims := []contract.Claim{
		claim(9, "a", ""), claim(4, "a", ""), claim(6, "a", "east"), claim(5, "", ""), failed, unread, claim(7, "b", ""), direct,
	}
	var got []int64
	for _, c := range Leaders(claims) {
		got = append(got, c.Position)
	}
	if want := []int64{4, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("the leaders are at %v, want %v", got, want)
	}
	if got := Leaders(nil); len(got) > 0 {
		t.Errorf("of no claims: %v", got)
	}
}
