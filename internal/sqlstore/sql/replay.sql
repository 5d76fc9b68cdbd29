-- fragment: read_replay
-- What scanReplay reads. It counts what is dead again by the index on replay.
SELECT r.number, r.plan, r.started_by, r.why, r.state, r.letters, r.requeued, r.skipped,
       (SELECT count(*) FROM {dead_letters} d WHERE d.replay = r.number AND d.replay <> 0 AND d.requeued_at IS NULL),
       r.problem, r.started_at, r.ended_at, r.passed, r.upto
  FROM {replays} r

-- name: replay_read
{read_replay} WHERE r.number = $1

-- name: replay_list
{read_replay} ORDER BY r.state = 'running' DESC, r.number DESC LIMIT $1

-- name: replay_next_letters
-- Reads along an index that includes the number. As the cursor moves, no part of it is read twice.
SELECT number FROM {dead_letters} {where}

-- name: replay_save
UPDATE {replays} SET passed = $2, requeued = $3, skipped = $4, state = $5, problem = $6,
       ended_at = CASE WHEN $5 <> 'running' THEN {now} END
 WHERE number = $1

-- name: replay_cancel
-- Waits for the process that advances the replay, and then sees how it ended.
UPDATE {replays} SET state = 'cancelled', ended_at = {now} WHERE number = $1 AND state = 'running'
