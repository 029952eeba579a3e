-- Ends a resize: workers with the new number may start.
--
-- KEYS  1 number of buckets (string), then for each old bucket: lease (hash), fence (string), seq (hash)
-- ARGV  1 the mark of the resize, 2 the new number, 3 how long the old fences are kept, in ms
-- Returns 1; 0 where the mark is gone: then nothing was done.
-- Errors  none of its own.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
for i = 2, #KEYS, 3 do
  redis.call('DEL', KEYS[i], KEYS[i + 2])
  redis.call('PEXPIRE', KEYS[i + 1], ARGV[3])
end
return 1
