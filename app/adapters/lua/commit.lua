-- Writes records and audit entries of many VMs of one bucket, all or nothing, if no newer token was seen.
--
-- KEYS  1 fence (string), 2 state (hash), then the keys that ARGV names by their number
-- ARGV  1 token, 2 entries kept in a stream (about), 3 retention of deleted VMs in ms,
--       4 number of values for HSET, then these: VM key, record, …
--       then number of audit entries, then for each: number of the stream's key, of the deleted record's
--       key, the entry
--       then number of deletions, then for each: number of the stream's key, of the deleted record's key,
--       the VM key, its last record or ''
-- Returns 0, or the newer token; then nothing is written.
-- Errors  none of its own.
local fence = tonumber(redis.call('GET', KEYS[1]) or '0')
if fence > tonumber(ARGV[1]) then return fence end
if fence < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end

local maxlen, retention = ARGV[2], ARGV[3]
local at = 4
local function take()
  at = at + 1
  return ARGV[at - 1]
end

local last = tonumber(take()) + at - 1
while at <= last do
  local stop = math.min(at + 999, last) -- the Lua stack has room for some thousand values
  redis.call('HSET', KEYS[2], unpack(ARGV, at, stop))
  at = stop + 1
end
for _ = 1, tonumber(take()) do
  local stream, deleted, entry = KEYS[tonumber(take())], KEYS[tonumber(take())], take()
  redis.call('XADD', stream, 'MAXLEN', '~', maxlen, '*', 'e', entry)
  redis.call('PERSIST', stream) -- a VM of that name may have been deleted before
  redis.call('DEL', deleted)
end
for _ = 1, tonumber(take()) do
  local stream, deleted, vm, record = KEYS[tonumber(take())], KEYS[tonumber(take())], take(), take()
  if record == '' then record = redis.call('HGET', KEYS[2], vm) or '' end
  if record ~= '' then redis.call('SET', deleted, record, 'PX', retention) end
  redis.call('HDEL', KEYS[2], vm)
  redis.call('PEXPIRE', stream, retention)
end
return 0
