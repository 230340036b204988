-- claim, the short way: a mutex that nobody has and nobody waits for. Two keys are looked at and two are written.
-- ARGV: id, capacity, weight, priority, patience (0 none, 1 waits, 2 barges), ttl, floor, lingers, channel, about
-- Answers: time, then
--   0, token | 1, ahead, waiters ahead, time until a lease ends or -1, by a stranger | 2 refused
--   3, capacity in use | 4, weight in use
local id, capacity, weight, priority = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local patience, ttl, floor, lingers = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local channel, about = ARGV[9], ARGV[10]

local value = redis.call('GET', holder)
if capacity == 1 and not value and redis.call('EXISTS', leases) == 0 then
  local token = next_token(floor)
  local taken = holder_value(id, lingers and 'l' or '-', token, now, priority, about)
  redis.call('SET', holder, taken, 'PX', ttl)
  return {micros, 0, token}
end
