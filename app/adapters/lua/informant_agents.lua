-- Enters, confirms and keeps alive the agents that workers are towards informants. One atomic step.
--
-- KEYS  1 agents (hash by id: what it is), 2 order (sorted set: places; not while being checked),
--       3 numbers (hash by id: highest sequence number), 4 seen (sorted set: time of the last heartbeat, ms)
-- ARGV  1 time to live in ms, 2 what to do, then for
--       register   id, what it is, order, number, greatest count: 1 entered, 0 there already, -1 full
--       confirm    id: its place, 0 where it is not there
--       heartbeat  id, number, id, number, ...: the highest number before, for each; -1 where it is not there
--       expire     nothing
-- Returns that; for expire the ids that have gone.
-- Errors  none of its own.
--
-- A place is max(the highest, Redis' time in ms) + 1: higher also than those that Redis has lost and that come back.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local agents, order, numbers, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ttl, what = tonumber(ARGV[1]), ARGV[2]

-- A clock that went back leaves times in the future: they count from now on.
for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', seen, '(' .. string.format('%.0f', now), '+inf')) do
  redis.call('ZADD', seen, now, ahead)
end
local over = redis.call('ZRANGEBYSCORE', seen, '-inf', string.format('%.0f', now - ttl))
for _, id in ipairs(over) do
  redis.call('HDEL', agents, id)
  redis.call('ZREM', order, id)
  redis.call('HDEL', numbers, id)
  redis.call('ZREM', seen, id)
end

if what == 'expire' then return over end

if what == 'register' then
  local id = ARGV[3]
  if redis.call('HEXISTS', agents, id) == 1 then return 0 end
  if redis.call('HLEN', agents) >= tonumber(ARGV[7]) then return -1 end
  redis.call('HSET', agents, id, ARGV[4])
  if ARGV[5] ~= '0' then redis.call('ZADD', order, ARGV[5], id) end
  redis.call('HSET', numbers, id, ARGV[6])
  redis.call('ZADD', seen, now, id)
  return 1
end

if what == 'confirm' then
  local id = ARGV[3]
  if redis.call('HEXISTS', agents, id) == 0 then return 0 end
  local place = tonumber(redis.call('ZSCORE', order, id) or '0')
  if place == 0 then
    local highest = redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')
    place = math.max(tonumber(highest[2] or '0'), now) + 1
    redis.call('ZADD', order, place, id)
  end
  return place
end

local before = {}
for at = 3, #ARGV, 2 do
  local id, number = ARGV[at], ARGV[at + 1]
  if redis.call('HEXISTS', agents, id) == 0 then
    before[#before + 1] = '-1'
  else
    local last = redis.call('HGET', numbers, id) or '0'
    -- As text: a double does not hold all of 64 bits.
    if #number > #last or (#number == #last and number > last) then
      redis.call('HSET', numbers, id, number)
    end
    before[#before + 1] = last
    redis.call('ZADD', seen, now, id)
  end
end
return before
