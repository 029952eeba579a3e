-- The standing intents of a bucket; those that have ended are deleted.
--
-- KEYS  1 intents (hash)
-- Returns the intents as JSON texts.
-- Errors  none of its own.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all, standing = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local until_ms, intent = string.match(all[i + 1], '^(%d+) (.*)$')
  if until_ms and (until_ms == '0' or tonumber(until_ms) > now) then
    standing[#standing + 1] = intent
  else
    redis.pcall('HDEL', KEYS[1], all[i]) -- a user who may only read leaves it to the owner
  end
end
return standing
