-- Heartbeat of an agent, renewal of the leases that it names, and a view of all leases. One atomic step.
--
-- KEYS  1 epoch (hash), 2 heartbeats (sorted set), 3 number of buckets (string), 4 drains (hash),
--       then for each bucket: lease (hash), fence (string)
-- ARGV  1 agent id, 2 identity, 3 lease duration in ms,
--       then for each bucket, in the order of KEYS: the token to renew, or '' for a look only
-- Returns {now_ms, live agent ids, rows, draining agent ids, silence_ms}; a row is {renewed 0|1, token,
--       agent or '', identity or '', remaining_ms, acquired_ms}, in the order of KEYS; `silence_ms` is how
--       long nobody may acquire yet. {the number in force} where that is not the caller's: nothing was done.
-- Errors  none of its own.
--
-- A renewal is refused when the lease is another's, has expired or was never given; then `renewed` is 0.
-- While an epoch is younger than a lease (Redis has restarted, changed its master or lost its keys), leases
-- that were lost may still be believed in: their holder may assert one again, with its own token.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local agent, identity, duration = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- 0 for what is missing, and for what is no number: one bad field must not end the work on all buckets.
local function number(stored) return tonumber(stored or '') or 0 end

-- Redis may have lost the number of buckets while the workers went on.
local total = string.format('%.0f', (#KEYS - 4) / 2)
redis.call('SETNX', KEYS[3], total)
local in_force = redis.call('GET', KEYS[3])
if in_force ~= total then return {in_force} end

-- The run id is another after a restart; the replication id also when a server was demoted, has copied what
-- another had, and was promoted again. An epoch that says none is of an earlier version: it is completed.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local epoch = redis.call('HMGET', KEYS[1], 'run', 'since_ms', 'replid')
local since = tonumber(epoch[2] or '')
if epoch[1] ~= run or (epoch[3] and epoch[3] ~= history) or not since or since > now then
  since = now
  redis.call('HSET', KEYS[1], 'run', run, 'since_ms', string.format('%.0f', now))
end
if epoch[3] ~= history then redis.call('HSET', KEYS[1], 'replid', history) end
local silence = math.max(since + duration - now, 0)
local is_held_back = silence > 0

-- A clock that went back leaves times in the future: they count from now on.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')) do
  redis.call('ZADD', KEYS[2], now, id)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - duration)
redis.call('ZADD', KEYS[2], now, agent)

local rows = {}
for i = 1, (#KEYS - 4) / 2 do
  local lease_key, fence_key = KEYS[2 * i + 3], KEYS[2 * i + 4]
  local lease = redis.call('HMGET', lease_key, 'token', 'agent', 'identity', 'until_ms', 'renewed_ms',
    'acquired_ms')
  local token = number(lease[1])
  local holder, holder_identity = lease[2] or '', lease[3] or ''
  local remaining, acquired = number(lease[4]) - now, number(lease[6])
  if number(lease[5]) > now then
    remaining = duration
    redis.call('HSET', lease_key, 'renewed_ms', string.format('%.0f', now),
      'until_ms', string.format('%.0f', now + duration))
  end
  if remaining <= 0 then holder, holder_identity, remaining, acquired = '', '', 0, 0 end
  local renewed = 0
  if ARGV[3 + i] ~= '' then
    local mine = tonumber(ARGV[3 + i])
    local fence = number(redis.call('GET', fence_key))
    local is_ours = holder == agent and token == mine
    local is_asserted = is_held_back and mine >= fence
      and (mine > token or (mine == token and (holder == '' or holder == agent)))
    if is_ours or is_asserted then
      local text = string.format('%.0f', now)
      if not is_ours then
        redis.call('HSET', lease_key, 'acquired_ms', text)
        acquired = now
      end
      redis.call('HSET', lease_key, 'token', string.format('%.0f', mine), 'agent', agent, 'identity', identity,
        'renewed_ms', text, 'until_ms', string.format('%.0f', now + duration))
      if mine > fence then redis.call('SET', fence_key, string.format('%.0f', mine)) end
      renewed, token, holder, holder_identity, remaining = 1, mine, agent, identity, duration
    end
  end
  rows[i] = {renewed, token, holder, holder_identity, remaining, acquired}
end
return {now, redis.call('ZRANGE', KEYS[2], 0, -1), rows, redis.call('HKEYS', KEYS[4]), silence}
