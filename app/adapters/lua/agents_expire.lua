-- Drops the agents whose time is over.
--
-- KEYS  1 agents (hash), 2 agents:until, 3 agents:seen, 4 agents:order (sorted sets)
-- Returns their ids.
-- Errors  none of its own.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
for _, id in ipairs(over) do
  redis.call('HDEL', KEYS[1], id)
  for key = 2, 4 do redis.call('ZREM', KEYS[key], id) end
end
return over
