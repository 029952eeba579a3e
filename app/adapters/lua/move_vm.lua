-- Moves everything that is stored for one VM from a bucket to another one. The second time changes nothing.
--
-- KEYS  for the old bucket, then for the new one: state (hash), events (stream), deleted (string), intents (hash)
-- ARGV  1 VM key, 2 record to store in place of the one that is there (or ''), then fields of its intents
-- Returns 0.
-- Errors  none of its own.
local vm, record = ARGV[1], ARGV[2]
local function move_field(from, to, field, instead)
  local value = redis.call('HGET', from, field)
  if value then
    if instead ~= '' then value = instead end
    redis.call('HSET', to, field, value)
    redis.call('HDEL', from, field)
  end
end
move_field(KEYS[1], KEYS[5], vm, record)
for i = 3, #ARGV do move_field(KEYS[4], KEYS[8], ARGV[i], '') end
for key = 2, 3 do
  if redis.call('EXISTS', KEYS[key]) == 1 then redis.call('RENAME', KEYS[key], KEYS[key + 4]) end
end
return 0
