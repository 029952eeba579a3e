-- Enters an agent in the registry, or refreshes its entry, and drops those whose time is over. One atomic step.
--
-- KEYS  1 agents (hash), 2 agents:until, 3 agents:seen, 4 agents:order (sorted sets)
-- ARGV  1 agent id, 2 facts, 3 time to live in ms,
--       4 `heartbeat`: refresh only; `register`: enter, 5 the number that it had before, or 0
-- Returns its number in the order of registration; 0 for the heartbeat of one that is not there.
-- Errors  none of its own.
--
-- number = max(the highest, Redis' time in ms) + 1, as with tokens: also after Redis has lost its keys, whoever
-- registers first then has a higher number than those that come back with theirs.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id, facts, ttl, is_new = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == 'register'

-- A clock that went back leaves times in the future: they count from now on.
for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. string.format('%.0f', now), '+inf')) do
  local by = redis.call('ZSCORE', KEYS[3], ahead) - now
  redis.call('ZINCRBY', KEYS[2], -by, ahead)
  redis.call('ZADD', KEYS[3], now, ahead)
end
for _, over in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('HDEL', KEYS[1], over)
  for key = 2, 4 do redis.call('ZREM', KEYS[key], over) end
end

local number = tonumber(redis.call('ZSCORE', KEYS[4], id) or '0')
if not redis.call('ZSCORE', KEYS[2], id) then number = 0 end
if number == 0 then
  if not is_new then return 0 end
  number = tonumber(ARGV[5])
  if number == 0 then
    local highest = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
    number = math.max(tonumber(highest[2] or '0'), now) + 1
  end
  redis.call('ZADD', KEYS[4], number, id)
end
redis.call('HSET', KEYS[1], id, string.format('%.0f ', now) .. facts)
redis.call('ZADD', KEYS[2], now + ttl, id)
redis.call('ZADD', KEYS[3], now, id)
return number
