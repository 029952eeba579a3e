-- Appends a stat to those that wait for their bucket's owner, unless too many wait.
--
-- KEYS  1 stats (list), 2 number of buckets (string)
-- ARGV  1 the stat, 2 how many may wait, 3 retention in ms: a bucket that nobody owns ever again leaves nothing,
--       4 the number of buckets that the bucket is one of
-- Returns how many wait now; 0: too many, -1: the fleet has another number of buckets. Nothing was appended then.
-- Errors  none of its own.
--
-- A worker that was frozen during a resize would else leave stats where nobody looks for them.
local total = redis.call('GET', KEYS[2])
if total and total ~= ARGV[4] then return -1 end
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
local length = redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return length
