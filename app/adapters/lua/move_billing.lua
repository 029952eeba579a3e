-- Moves meters, or an outbox, of a bucket to another one. The second time changes nothing.
--
-- KEYS  1 from, 2 to (both hashes, or both lists)
-- ARGV  fields of the hash; none: KEYS are lists, and the whole one goes behind the other
-- Returns 0.
-- Errors  none of its own.
if #ARGV > 0 then
  for _, field in ipairs(ARGV) do
    local meter = redis.call('HGET', KEYS[1], field)
    if meter then
      redis.call('HSET', KEYS[2], field, meter)
      redis.call('HDEL', KEYS[1], field)
    end
  end
  return 0
end
for _ = 1, redis.call('LLEN', KEYS[1]) do redis.call('RPUSH', KEYS[2], redis.call('LPOP', KEYS[1])) end
return 0
