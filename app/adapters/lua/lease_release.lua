-- Lets go of leases that are still the caller's; others are left alone. The tokens stay.
--
-- KEYS  for each bucket: lease (hash)
-- ARGV  1 agent id, then for each bucket, in the order of KEYS: the token that it is held with
-- Returns how many were let go.
-- Errors  none of its own.
local released = 0
for i, key in ipairs(KEYS) do
  local lease = redis.call('HMGET', key, 'token', 'agent')
  if lease[2] == ARGV[1] and tonumber(lease[1] or '0') == tonumber(ARGV[1 + i]) then
    redis.call('HDEL', key, 'agent', 'identity', 'acquired_ms', 'renewed_ms', 'until_ms')
    released = released + 1
  end
end
return released
