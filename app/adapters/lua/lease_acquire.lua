-- Takes those of the named buckets that are free, or held by the caller itself under a token it has given up.
--
-- KEYS  1 epoch (hash), 2 number of buckets (string), then for each bucket: lease (hash), fence (string)
-- ARGV  1 agent id, 2 identity, 3 lease duration in ms, 4 the highest token that the caller has seen,
--       5 the caller's number of buckets
-- Returns for each bucket, in the order of KEYS, its new token, or 0 where it was not taken.
-- Errors  none of its own.
--
-- token = max(stored, Redis' time in ms, highest that the caller has seen) + 1: it never goes down, even
-- when Redis has lost what was stored. The fence is raised with it, so the earlier owner's writes end here.
-- Nobody acquires while the epoch is younger than a lease, nor before a round has noted the epoch, nor with
-- another number of buckets: whoever was stopped between its round and this may wake up after a resize.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local agent, identity, duration, seen = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

-- As in a round.
local function number(stored) return tonumber(stored or '') or 0 end

local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local epoch = redis.call('HMGET', KEYS[1], 'run', 'since_ms', 'replid')
local since = tonumber(epoch[2] or '')
local may_acquire = epoch[1] == run and epoch[3] == history and since and now - since >= duration
  and redis.call('GET', KEYS[2]) == ARGV[5]

local tokens = {}
for i = 1, (#KEYS - 2) / 2 do
  local lease_key, fence_key = KEYS[2 * i + 1], KEYS[2 * i + 2]
  tokens[i] = 0
  if may_acquire then
    local lease = redis.call('HMGET', lease_key, 'token', 'agent', 'until_ms')
    if not lease[2] or lease[2] == agent or number(lease[3]) <= now then
      local fence = number(redis.call('GET', fence_key))
      local token = math.max(number(lease[1]), fence, now, seen) + 1
      local text, token_text = string.format('%.0f', now), string.format('%.0f', token)
      redis.call('HSET', lease_key, 'token', token_text, 'agent', agent, 'identity', identity,
        'acquired_ms', text, 'renewed_ms', text, 'until_ms', string.format('%.0f', now + duration))
      redis.call('SET', fence_key, token_text)
      tokens[i] = token
    end
  end
end
return tokens
