-- Appends a stat to those that wait for their bucket's owner, unless too many wait.
--
-- KEYS  1 stats (list)
-- ARGV  1 the stat, 2 how many may wait, 3 retention in ms: a bucket that nobody owns ever again leaves nothing
-- Returns how many wait now, or 0: nothing was appended.
-- Errors  none of its own.
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
local length = redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return length
