-- Bars all workers while the states of a fleet are moved to another number of buckets, unless one is at work.
--
-- KEYS  1 number of buckets (string), 2 heartbeats (sorted set), then for each old bucket: lease (hash),
--       fence (string), seq (hash), then for each new bucket: fence (string), seq (hash)
-- ARGV  1 the old number, 2 the mark of the resize, 3 lease duration in ms
-- Returns 1; 0 where a worker is at work or the number has changed: then nothing was done.
-- Errors  none of its own.
--
-- All fences go above every token that was ever given, and above Redis' time: no token goes down for any VM,
-- and a worker that was stopped all the while can write nothing when it wakes up. The same for the seqs.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local old, mark, duration = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local stored = redis.call('GET', KEYS[1])
if stored ~= ARGV[1] and stored ~= mark then return 0 end
if redis.call('ZCOUNT', KEYS[2], '(' .. string.format('%.0f', now - duration), '+inf') > 0 then return 0 end

local fence, seq = now, 0
local fences, seqs = {}, {}
local function take(fence_key, seq_key)
  fence = math.max(fence, tonumber(redis.call('GET', fence_key) or '0'))
  seq = math.max(seq, tonumber(redis.call('HGET', seq_key, 'seq') or '0'))
  fences[#fences + 1], seqs[#seqs + 1] = fence_key, seq_key
end
for i = 0, old - 1 do
  local lease = redis.call('HMGET', KEYS[3 + 3 * i], 'token', 'agent', 'until_ms')
  if lease[2] and tonumber(lease[3] or '0') > now then return 0 end
  fence = math.max(fence, tonumber(lease[1] or '0'))
  take(KEYS[4 + 3 * i], KEYS[5 + 3 * i])
end
for i = 3 + 3 * old, #KEYS, 2 do take(KEYS[i], KEYS[i + 1]) end

redis.call('SET', KEYS[1], mark)
for i = 1, #fences do
  redis.call('SET', fences[i], string.format('%.0f', fence + 1))
  redis.call('HSET', seqs[i], 'seq', string.format('%.0f', seq))
end
return 1
