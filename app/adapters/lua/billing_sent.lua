-- Takes the oldest events off an outbox after its sink has taken them, once.
--
-- KEYS  1 fence (string), 2 meters (hash), 3 outbox (list)
-- ARGV  1 token, 2 field that counts the events which have left this outbox, 3 its value as it was read,
--       4 how many were sent
-- Returns  0, or the newer token; then nothing is removed.
-- Errors  none of its own.
--
-- Where the count is another one than was read, they are gone already, and the answer to that got lost.
local fence = tonumber(redis.call('GET', KEYS[1]) or '0')
if fence > tonumber(ARGV[1]) then return string.format('%.0f', fence) end
if tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or '0') == tonumber(ARGV[3]) then
  redis.call('LTRIM', KEYS[3], ARGV[4], -1)
  redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[4])
end
return '0'
