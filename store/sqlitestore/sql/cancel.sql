-- fragment: lane_of row
-- There is one lane.
0

-- fragment: for_update
-- There is only one writer, which needs no locks.
