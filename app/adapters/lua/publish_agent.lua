-- Writes an agent's facts and drops those of agents whose time is over.
--
-- KEYS  1 agents (hash), 2 agents:until (sorted set)
-- ARGV  1 agent id, 2 facts, 3 time to live in ms
-- Returns 0.
-- Errors  none of its own.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[3]), ARGV[1])
return 0
