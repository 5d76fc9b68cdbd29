package mysqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimMessages implements [contract.Source]: with one statement for what was never tried, most
// often, one more if req.Due is set, and one or two more if the first message of a key is due.
func (s *Store) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	claims := []contract.Claim{}
	if len(req.Lanes) == 0 {
		return claims, nil
	}
	if req.Due {
		var err error
		if claims, err = s.claimWaiting(ctx, req); err != nil {
			return nil, s.core.Kind(fmt.Errorf("claim waiting messages: %w", err))
		}
	}
	if req.Full(claims) || req.DueOnly {
		return claims, nil
	}
	claims, err := s.claimReady(ctx, req, claims)
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	return claims, nil
}

// claimWaiting claims what is due, and what is behind it.
func (s *Store) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	positions, single := req.HeldWaiting()
	claims, err := s.claimsOf(ctx, req, []contract.Claim{}, s.sql.ClaimDue, req.Limit, req.Paused, positions, laneNames(req.Lanes), single)
	leaders := sqlstore.Leaders(claims)
	for i := range claims {
		single = append(single, fmt.Sprint(claims[i].Position, "/", claims[i].Destination))
	}
	limit := req.Limit - len(claims)
	share := max(sqlstore.LeastOfKey, limit/max(len(leaders), 1))
	for n := 1 + limit/share; err == nil && len(leaders) > 0 && !req.Full(claims); n = len(leaders) {
		n = min(n, len(leaders)) // behind that number of leaders there is enough, most often
		claims, err = s.claimBehind(ctx, req, claims, leaders[:n], []any{req.Limit - len(claims), positions, single, laneNames(req.Lanes), share})
		leaders = leaders[n:]
	}
	for i := range claims {
		claims[i].Waiting = true
	}
	return claims, err
}

// claimBehind appends to claims what it finds behind leaders, which have the parameters of claim_behind that follow args.
func (s *Store) claimBehind(
	ctx context.Context, req contract.ClaimRequest, claims []contract.Claim, leaders []*contract.Claim, args []any,
) ([]contract.Claim, error) {
	selects := make([]string, len(leaders))
	for i, l := range leaders {
		n := len(args)
		args = append(args, l.Message.Address(), l.Message.Key, l.Destination)
		selects[i] = strings.NewReplacer("{leader_position}", strconv.FormatInt(l.Position, 10),
			"{of_topic}", numbered(n+1), "{of_key}", numbered(n+2), "{of_destination}", numbered(n+3)).Replace(s.sql.Leader)
	}
	return s.claimsOf(ctx, req, claims, strings.Replace(s.sql.ClaimBehind, "{leaders}", strings.Join(selects, " UNION ALL "), 1), args...)
}

// claimsOf appends what a query finds.
func (s *Store) claimsOf(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim, query string, args ...any) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows, err := s.core.DB.Query(ctx, query, args...)
	return sqlstore.NewClaimScanner(req.Lanes).Read(claims, req.Bytes, stop, rows, err)
}

// claimReady appends to claims what it finds in the lanes. It looks at a part of each that suffices if the
// rows, and the messages in flight, are spread evenly over them; if that is too little, it looks again at as
// much of each lane as the request could take from one.
func (s *Store) claimReady(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim) ([]contract.Claim, error) {
	whole := req.Limit - len(claims) + len(req.Held)
	part := min(whole, leastOfLane+whole/len(req.Lanes))
	found, err := s.readLanes(ctx, req, claims, part)
	if err == nil && part < whole && !req.Full(found) && mayBeMore(found[len(claims):], part-len(req.Held)) {
		found, err = s.readLanes(ctx, req, claims, whole)
	}
	return found, err
}

// leastOfLane is the minimum number of rows of a lane that a claim looks at.
const leastOfLane = 30

// mayBeMore reports whether n messages or more were found in a lane, so that it may have been cut off there.
func mayBeMore(found []contract.Claim, n int) bool {
	if n <= 0 {
		return true
	}
	of := make(map[int]int)
	for i := range found {
		number := found[i].Lane.Number
		if of[number]++; of[number] == n {
			return true
		}
	}
	return false
}

// readLanes appends to claims what it finds among the first positions of each lane.
func (s *Store) readLanes(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim, first int) ([]contract.Claim, error) {
	selects := make([]string, len(req.Lanes))
	for i, l := range req.Lanes {
		selects[i] = strings.NewReplacer("{lane_number}", strconv.Itoa(l.Number), "{lane_epoch}", strconv.FormatInt(l.Epoch, 10)).Replace(s.sql.Lane)
	}
	query := strings.Replace(s.sql.ClaimReady, "{lanes}", strings.Join(selects, " UNION ALL "), 1)
	return s.claimsOf(ctx, req, claims, query, req.Limit-len(claims), req.Held, first)
}

// laneNames returns lanes as owns_lane compares them.
func laneNames(lanes []contract.Lane) []string {
	list := make([]string, len(lanes))
	for i, l := range lanes {
		list[i] = fmt.Sprint(l.Number, "/", l.Epoch)
	}
	return list
}

func numbers(lanes []contract.Lane) []int {
	list := make([]int, len(lanes))
	for i, l := range lanes {
		list[i] = l.Number
	}
	return list
}
