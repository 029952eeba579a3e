-- Takes stats that have their fate away from those that wait, if no newer token was seen.
--
-- KEYS  1 fence (string), 2 stats (list)
-- ARGV  1 token, then the stats, each as it was read
-- Returns 0, or the newer token; then nothing is removed.
-- Errors  none of its own.
--
-- They are near the head, so that each is found at once; one that is gone already was removed by an earlier
-- call whose answer got lost.
local fence = tonumber(redis.call('GET', KEYS[1]) or '0')
if fence > tonumber(ARGV[1]) then return fence end
for i = 2, #ARGV do redis.call('LREM', KEYS[2], 1, ARGV[i]) end
return 0
