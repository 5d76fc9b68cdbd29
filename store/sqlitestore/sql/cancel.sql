-- fragment: lane_of row
-- There is one lane.
0

-- fragment: for_update
-- Writers are one at a time, and need no locks.
