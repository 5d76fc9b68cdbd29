package contract

import "context"

// AheadSource is a [Source] that can read past the backlog of some tenants, so that the others need not
// wait until it is published. The stores of this module implement it. With any other source, a relay
// that is behind publishes in the order of positions, whichever tenant enqueued them.
type AheadSource interface {
	Source

	// ClaimAhead returns messages that never waited, as ClaimMessages does, but in the order of
	// positions, and only of other tenants than req.Without. It leaves out a message if an earlier one
	// of its topic and key remains: one that the caller has not claimed and that this call does not
	// return. It must see the earlier one if it was visible when the later one was read.
	//
	// It reads req.Span positions from the first row above req.Above on, and returns the position up to
	// which it has read everything, from which the next call continues. What it returns is left out of
	// later claims only while req.Held names it. It is not called while ClaimMessages is running.
	ClaimAhead(ctx context.Context, req AheadRequest) (claims []Claim, reached int64, err error)
}

// AheadRequest is what [AheadSource.ClaimAhead] needs.
type AheadRequest struct {
	Lanes   []Lane
	Without []string // tenants; never empty
	Above   int64    // only positions above this one
	Span    int64    // how many positions to look at
	Limit   int      // most messages to return
	Bytes   int      // as in [ClaimRequest]
	Held    []int64  // ascending: positions that the caller has claimed and not settled; not returned
}

// Reached returns the position that ClaimAhead returns with claims: that of the last of them if they
// reach the request's limits of number or size, else upTo.
func (r *AheadRequest) Reached(claims []Claim, upTo int64) int64 {
	if limits := (ClaimRequest{Limit: r.Limit, Bytes: r.Bytes}); limits.Full(claims) {
		return claims[len(claims)-1].Position
	}
	return max(upTo, r.Above)
}
