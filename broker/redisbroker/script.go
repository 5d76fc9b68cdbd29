package redisbroker

import "github.com/redis/go-redis/v9"

// Each script works on the keys of one address, so that Cluster runs it on one node. KEYS[1] is the
// stream, KEYS[2] the sorted set of waiting entries; ARGV[1] is the group.

// fieldsLua turns a reply of XINFO, alternating names and values, into a table.
const fieldsLua = `
local function fields(reply)
  local t = {}
  for i = 1, #reply, 2 do t[reply[i]] = reply[i + 1] end
  return t
end
`

// claimScript gives entries to the consumer ARGV[2], ARGV[4] at most: first those that waited under the
// name ARGV[3] and are due, by due time, then those that others have neither settled nor extended for
// ARGV[5] milliseconds. Waiting entries are not touched unless the set of due times is lost. Consumers
// that hold nothing and have not been seen for an hour are removed. It returns in how many milliseconds
// the next entry is due, -1 for none, how many that were given back are left, and the entries.
var claimScript = redis.NewScript(fieldsLua + `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entries = {}
local function claim(ids)
  if #ids == 0 then return end
  for _, entry in ipairs(redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(ids))) do
    if entry then entries[#entries + 1] = entry end
  end
end
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[4])
if #due > 0 then redis.call('ZREM', KEYS[2], unpack(due)) end
claim(due)
local lost = redis.call('EXISTS', KEYS[2]) == 0
for _, reply in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local c = fields(reply)
  local room = ARGV[4] - #entries
  if c.pending == 0 and c.idle > 3600000 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c.name)
  elseif c.pending > 0 and room > 0 and (c.name ~= ARGV[3] or lost) then
    local ids = {}
    for _, p in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[5], '-', '+', room, c.name)) do
      ids[#ids + 1] = p[1]
    end
    claim(ids)
  end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local next, left = -1, 0
if first[2] then next = math.max(0, math.ceil(first[2] - now)) end
if next == 0 then left = #redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', 0) end
return {next, left, entries}
`)

// waitScript defers the entries ARGV[5] and so on by ARGV[4] milliseconds, if they still belong to the
// consumer ARGV[2]. They then belong to ARGV[3]. Without a delay they are given back: instead of a due
// time they have a rank below zero, by their position in the stream; of entries that were added in one
// millisecond that is exact for the first 1024. It returns how many there were.
var waitScript = redis.NewScript(`
local time = redis.call('TIME')
local delay, n = tonumber(ARGV[4]), 0
local function turn(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return math.min(tonumber(ms), 7e12) - 8e12 + math.min(tonumber(seq), 1023) / 1024
end
for i = 5, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) == 1 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, ARGV[i], 'JUSTID')
    local score = delay > 0 and time[1] * 1000 + math.ceil(time[2] / 1000) + delay or turn(ARGV[i])
    redis.call('ZADD', KEYS[2], string.format('%.17g', score), ARGV[i])
    n = n + 1
  end
end
return n
`)

// extendScript restarts the time after which the entries ARGV[3] and so on are taken over, if they still
// belong to the consumer ARGV[2]. It returns how many there were.
var extendScript = redis.NewScript(`
local n = 0
for i = 3, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) == 1 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    n = n + 1
  end
end
return n
`)

// trimScript removes the entries that all groups have received and acknowledged, those of the last
// ARGV[1] milliseconds excepted. For each group the first entry to keep is the oldest pending one,
// waiting ones included, or else the one behind the last that it received. It returns how many were
// removed.
var trimScript = redis.NewScript(fieldsLua + `
local function split(id) return string.match(id, '^(%d+)-(%d+)$') end
local function less(a, b) -- numbers of up to 20 digits, which Lua's cannot hold
  if #a ~= #b then return #a < #b end
  return a < b
end
local function before(a, b)
  local at, as = split(a)
  local bt, bs = split(b)
  if at ~= bt then return less(at, bt) end
  return less(as, bs)
end
local function behind(id)
  local time, seq = split(id)
  if #seq > 15 then return id end
  return time .. '-' .. string.format('%.0f', seq + 1)
end
local keep
for _, reply in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local g = fields(reply)
  local first
  if g.pending > 0 then
    first = redis.call('XPENDING', KEYS[1], g.name)[2]
  else
    first = behind(g['last-delivered-id'])
  end
  if not keep or before(first, keep) then keep = first end
end
if not keep then return 0 end
if tonumber(ARGV[1]) > 0 then
  local time = redis.call('TIME')
  local young = string.format('%.0f-0', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
  if before(young, keep) then keep = young end
end
return redis.call('XTRIM', KEYS[1], 'MINID', keep)
`)

// lagScript counts what the group has not received yet; -1 if Redis can't tell.
var lagScript = redis.NewScript(fieldsLua + `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for _, reply in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local g = fields(reply)
  if g.name == ARGV[1] then return g.lag or -1 end
end
return 0
`)
