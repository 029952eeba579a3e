-- Takes the turn of every bucket for which it has come, spread evenly over the period.
--
-- KEYS  for each bucket of the fleet, in order: seq (hash)
-- ARGV  1 period in ms
-- Returns {number of the bucket from 0, its new seq}, … for the buckets that are due.
-- Errors  none of its own.
--
-- Due: the bucket's slot, floor((now + its phase) / period), is not that of its last turn, and half a period
-- lies between the two. A clock that went back by half a period or more is accepted; by less, the turn waits,
-- since a step of some milliseconds would poll twice. A seq that was lost begins at Redis' time in ms: above
-- any that was given, so that nobody takes it for an old one.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local period = tonumber(ARGV[1])
local due = {}
for i, key in ipairs(KEYS) do
  local last = redis.call('HMGET', key, 'seq', 'ms')
  local seq, ms = tonumber(last[1] or ''), tonumber(last[2] or '')
  local phase = (i - 1) * period / #KEYS
  local is_due = not seq or not ms
  if not is_due and math.abs(now - ms) >= period / 2 then
    is_due = math.floor((now + phase) / period) ~= math.floor((ms + phase) / period)
  end
  if is_due then
    seq = seq and seq + 1 or now
    redis.call('HSET', key, 'seq', string.format('%.0f', seq), 'ms', string.format('%.0f', now))
    due[#due + 1] = {i - 1, seq}
  end
end
return due
