-- Refuses every token older than the given one from now on.
--
-- KEYS  1 fence (string)
-- ARGV  1 token
-- Returns 0, or the newer token that was seen already; then nothing is changed.
-- Errors  none of its own.
local fence = tonumber(redis.call('GET', KEYS[1]) or '0')
if fence > tonumber(ARGV[1]) then return fence end
redis.call('SET', KEYS[1], ARGV[1])
return 0
