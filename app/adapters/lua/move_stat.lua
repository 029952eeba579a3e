-- Moves a stat that waits from a bucket's list to the end of another one, or drops it.
--
-- KEYS  1 stats of the old bucket, 2 stats of the new one (lists); without 2 it is dropped
-- ARGV  1 the stat as it was read
-- Returns how many were moved: 0 the second time.
-- Errors  none of its own.
local left = redis.call('PTTL', KEYS[1])
local removed = redis.call('LREM', KEYS[1], 1, ARGV[1])
if removed > 0 and KEYS[2] then
  redis.call('RPUSH', KEYS[2], ARGV[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[2], math.max(left, redis.call('PTTL', KEYS[2]))) end
end
return removed
