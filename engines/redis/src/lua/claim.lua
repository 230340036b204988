-- claim, the long way: somebody is there.
sweep()
admit()
value = redis.call('GET', holder)

local in_use
if value then
  in_use = 1
elseif number('k') > 0 or redis.call('EXISTS', waiters) == 1 then
  in_use = number('c')
end
if in_use and in_use ~= capacity then
  return {micros, 3, in_use}
end

local function queued(arrival)
  local ahead = redis.call('ZRANK', waiters, arrival .. id) or 0
  local holders = capacity == 1 and redis.call('EXISTS', holder) or number('k')
  local left, stranger = -1, 0
  if capacity == 1 then
    local current = redis.call('GET', holder)
    left = current and redis.call('PTTL', holder) or quiet(ttl)
    stranger = (current and not ours(current)) and 1 or 0
  else
    local soonest = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
    left = soonest and math.max(tonumber(soonest) - now, 0) or -1
    if holders == 0 then
      left = quiet(ttl)
    end
  end
  return {micros, 1, holders + ahead, ahead, left, stranger}
end

-- The claim holds the mutex.
local owner, mark = nil, nil
if value then
  owner, mark = ours(value)
end
if owner == id then
  local mine = tonumber(string.match(value, '^%S+ (%d+)'))
  if mark == '-' then
    redis.call('PEXPIRE', holder, ttl)
    if lingers then
      redis.call('SETRANGE', holder, 32, 'l')
    end
  end
  if mine < floor then
    mine = raise_token(floor)
    local rest = string.match(redis.call('GET', holder), '^%S+ %d+( .*)$')
    redis.call('SET', holder, string.sub(redis.call('GET', holder), 1, 34) .. digits(mine) .. rest, 'KEEPTTL')
  end
  return {micros, 0, mine}
end

local record = find(id)
if record then
  if record.state == 'A' then
    return {micros, 2}
  end
  if weight > record.weight then
    return {micros, 4, record.weight}
  end
  if record.mark == '-' then
    record.mark = lingers and 'l' or '-'
    lease(id, now + ttl)
  end
  if record.state == 'H' then
    redis.call('HINCRBY', claims, 'h', digits(weight - record.weight))
    if record.token < floor then
      record.token = raise_token(floor)
    end
  else
    record.token = math.max(record.token, floor)
    record.channel = channel
  end
  record.weight = weight
  write(id, record)
  admit()
  record = find(id)
  if not record then
    -- It was let in just now: the only way out of `claims` for a claim whose lease was renewed.
    return {micros, 0, tonumber(string.match(redis.call('GET', holder), '^%S+ (%d+)'))}
  end
  if record.state == 'H' then
    return {micros, 0, record.token}
  end
  return queued(record.arrival)
end

-- A newcomer.
local ahead = redis.call('ZRANGE', waiters, 0, 0, 'WITHSCORES')[2]
local may_enter = not ahead or priority > -tonumber(ahead) or patience == '2'
local fits = may_enter and weight <= (in_use and room(capacity) or capacity)
local silence = quiet(ttl)
if silence > 0 then
  if fits and patience == '0' then
    return {micros, 5, silence}
  end
  fits = false
end
if not fits and patience == '0' then
  return {micros, 2}
end

record = {
  state = 'W', mark = lingers and 'l' or '-', weight = weight, priority = priority, token = floor, since = now,
  ttl = ttl, channel = channel, about = about, arrival = '0',
}
if fits and capacity == 1 then
  next_token(floor)
  redis.call('SET', holder, holder_value(id, record.mark, token, now, priority, about), 'PX', ttl)
  return {micros, 0, token}
end
redis.call('HSET', claims, 'c', digits(capacity))
record.arrival = string.format('%016.0f', redis.call('HINCRBY', claims, 'n', 1))
lease(id, now + ttl)
if fits then
  grant(id, record, capacity)
  return {micros, 0, record.token}
end
write(id, record)
wait(id, record)
return queued(record.arrival)
