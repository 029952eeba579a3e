-- Advances meters of a bucket and appends the events that they have made, all or nothing, once.
--
-- KEYS  1 fence (string), 2 meters (hash), then for each sink: its outbox (list)
-- ARGV  1 token, 2 number of this step, 3 number of values for HSET, then these: field, meter, …
--       then number of fields for HDEL, then these
--       then for each sink: number of events, then these
-- Returns  the newer token, or 'lost' (then nothing is written), or 0 and then the length of each outbox.
-- Errors  none of its own.
--
-- A step whose number is not above the stored one has been done already, and its answer got lost. Where the one
-- before it is missing, Redis has lost what it had said it had: what depends on that must not be written.
local fence = tonumber(redis.call('GET', KEYS[1]) or '0')
if fence > tonumber(ARGV[1]) then return {string.format('%.0f', fence)} end
local stored = tonumber(redis.call('HGET', KEYS[2], 'step') or '0')
if stored < tonumber(ARGV[2]) - 1 then return {'lost'} end
local is_done = stored >= tonumber(ARGV[2])

local at = 3
local function each(call)
  local last = tonumber(ARGV[at]) + at
  at = at + 1
  while at <= last do
    local stop = math.min(at + 999, last) -- the Lua stack has room for some thousand values
    if not is_done then call(at, stop) end
    at = stop + 1
  end
end
each(function(first, stop) redis.call('HSET', KEYS[2], unpack(ARGV, first, stop)) end)
each(function(first, stop) redis.call('HDEL', KEYS[2], unpack(ARGV, first, stop)) end)
local answer = {'0'}
for i = 3, #KEYS do
  each(function(first, stop) redis.call('RPUSH', KEYS[i], unpack(ARGV, first, stop)) end)
  answer[#answer + 1] = redis.call('LLEN', KEYS[i])
end
if not is_done then redis.call('HSET', KEYS[2], 'step', ARGV[2]) end
return answer
