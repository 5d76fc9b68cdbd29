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
// often, and one more if req.Due is set.
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

func (s *Store) claimWaiting(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	positions, held := req.HeldWaiting()
	rows, err := s.core.DB.Query(ctx, s.sql.ClaimWaiting, req.Limit, req.Paused, positions, laneNames(req.Lanes), held)
	due, err := sqlstore.NewClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
	for i := range due {
		due[i].Waiting = true
	}
	return due, err
}

// claimReady appends to claims what it finds in the lanes. It looks at a part of each that suffices if what there is, and
// what is under way, is spread over them; if that is too little, it looks again at as much as there may be to take in one.
func (s *Store) claimReady(ctx context.Context, req contract.ClaimRequest, claims []contract.Claim) ([]contract.Claim, error) {
	whole := req.Limit - len(claims) + len(req.Held)
	part := min(whole, leastOfLane+whole/len(req.Lanes))
	found, err := s.readLanes(ctx, req, claims, part)
	if err == nil && part < whole && !req.Full(found) && mayBeMore(found[len(claims):], part-len(req.Held)) {
		found, err = s.readLanes(ctx, req, claims, whole)
	}
	return found, err
}

// leastOfLane is how much of a lane a claim looks at, at least.
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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	selects := make([]string, len(req.Lanes))
	for i, l := range req.Lanes {
		selects[i] = strings.NewReplacer("{lane_number}", strconv.Itoa(l.Number), "{lane_epoch}", strconv.FormatInt(l.Epoch, 10)).Replace(s.sql.Lane)
	}
	query := strings.Replace(s.sql.ClaimReady, "{lanes}", strings.Join(selects, " UNION ALL "), 1)
	rows, err := s.core.DB.Query(ctx, query, req.Limit-len(claims), req.Held, first)
	return sqlstore.NewClaimScanner(req.Lanes).Read(claims, req.Bytes, stop, rows, err)
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
