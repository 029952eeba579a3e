-- Heartbeat of an agent whose leases are in a Kubernetes API server, its fences, and who else lives.
--
-- KEYS  1 epoch (hash), 2 heartbeats (sorted set), 3 number of buckets (string), 4 drains (hash),
--       then for each bucket: lease (hash), fence (string)
-- ARGV  1 agent id, 2 lease duration in ms,
--       then for each bucket, in the order of KEYS: the token that it is held with, or ''
-- Returns {now_ms, live agent ids, draining agent ids, rows}; a row is {fence, and of a lease that is held in
--       Redis itself: token, agent or '', identity or '', remaining_ms, acquired_ms}, in the order of KEYS.
--       {the number in force} where that is not the caller's: nothing was done.
-- Errors  none of its own.
--
-- The epoch begins anew each time: to workers with leases in Redis, Redis does not have all leases that are
-- believed in, so they acquire nothing until a lease duration after the last of these heartbeats.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local agent, duration = ARGV[1], tonumber(ARGV[2])

-- As in lease_round.
local function number(stored) return tonumber(stored or '') or 0 end

local total = string.format('%.0f', (#KEYS - 4) / 2)
redis.call('SETNX', KEYS[3], total)
local in_force = redis.call('GET', KEYS[3])
if in_force ~= total then return {in_force} end

redis.call('HSET', KEYS[1], 'run', string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'),
  'replid', string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)'),
  'since_ms', string.format('%.0f', now))

-- A clock that went back leaves times in the future: they count from now on.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')) do
  redis.call('ZADD', KEYS[2], now, id)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - duration)
redis.call('ZADD', KEYS[2], now, agent)

local rows = {}
for i = 1, (#KEYS - 4) / 2 do
  local lease_key, fence_key = KEYS[2 * i + 3], KEYS[2 * i + 4]
  local fence, held = number(redis.call('GET', fence_key)), ARGV[2 + i]
  if held ~= '' and tonumber(held) > fence then
    fence = tonumber(held)
    redis.call('SET', fence_key, held)
  end
  local lease = redis.call('HMGET', lease_key, 'token', 'agent', 'identity', 'until_ms', 'acquired_ms')
  local remaining = math.min(number(lease[4]) - now, duration)
  if lease[2] and remaining > 0 then
    rows[i] = {fence, number(lease[1]), lease[2], lease[3] or '', remaining, number(lease[5])}
  else
    rows[i] = {fence, number(lease[1]), '', '', 0, 0}
  end
end
return {now, redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('HKEYS', KEYS[4]), rows}
