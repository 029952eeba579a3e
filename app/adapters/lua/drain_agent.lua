-- Lets an agent hand over everything and take nothing; forgets old drains of agents that have ended.
--
-- KEYS  1 drains (hash), 2 heartbeats (sorted set)
-- ARGV  1 agent id, 2 the note as JSON
-- Returns 0.
-- Errors  none of its own.
local DAY_MS = 86400000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local since = tonumber(string.match(all[i + 1], '^(%d+) ') or '0')
  if now - since > DAY_MS and not redis.call('ZSCORE', KEYS[2], all[i]) then redis.call('HDEL', KEYS[1], all[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
return 0
