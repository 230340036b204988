-- The line of one lock, for the scripts that change it. The rule is that of the core's `line`: walking the line in
-- order, a claim is granted while the weights so far fit into the capacity; the first that does not stops the others.

-- Keys outlive the last lease in them by this many milliseconds, so that they need not be touched by every renewal.
local KEPT = 60000
-- So many leases are ended in one go: others want to be served too. Who is left is not granted anything, see `admit`.
local SWEPT = 1000

-- A record: state (W waits, H holds, A set aside: evicted while it waited) and mark, weight, priority, arrival, token
-- or while it waits the floor of its token, since when, length of its lease, channel of its client, a text for people.
local function read(text)
  local state, mark, weight, priority, arrival, token, since, ttl, channel, about =
    string.match(text, '^(%u)(.) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  return {
    state = state, mark = mark, weight = tonumber(weight), priority = tonumber(priority), arrival = arrival,
    token = tonumber(token), since = tonumber(since), ttl = tonumber(ttl), channel = channel,
    about = about,
  }
end

local function write(id, record)
  redis.call('HSET', claims, id, table.concat({
    record.state .. record.mark, digits(record.weight), digits(record.priority), record.arrival,
    digits(record.token), digits(record.since), digits(record.ttl), record.channel, record.about,
  }, ' '))
end

local function number(field)
  return tonumber(redis.call('HGET', claims, field)) or 0
end

-- The id and mark of our own holder of a mutex; nothing for a stranger's value.
local function ours(value)
  return string.match(value, '^(%x+)([-elb]) %d+ %d+ %-?%d+ ')
end

-- Renews a lease; the keys live as long as it does.
local function lease(id, record_end)
  redis.call('ZADD', leases, digits(record_end), id)
  if record_end >= number('x') then
    local expires = digits(record_end + KEPT)
    redis.call('HSET', claims, 'x', expires)
    for _, key in ipairs({claims, waiters, leases}) do
      redis.call('PEXPIREAT', key, expires)
    end
  end
end

local function wait(id, record)
  redis.call('ZADD', waiters, digits(-record.priority), record.arrival .. id)
  -- A sorted set without members is no key: the first one begins a new key, which does not expire yet.
  if redis.call('ZCARD', waiters) == 1 then
    redis.call('PEXPIREAT', waiters, digits(number('x')))
  end
end

local function remove(id, record)
  redis.call('HDEL', claims, id)
  redis.call('ZREM', leases, id)
  if record.state == 'W' then
    redis.call('ZREM', waiters, record.arrival .. id)
  elseif record.state == 'H' then
    redis.call('HINCRBY', claims, 'h', digits(-record.weight))
    redis.call('HINCRBY', claims, 'k', -1)
  end
end

-- The record of a claim whose lease is not over.
local function find(id)
  local text = redis.call('HGET', claims, id)
  if not text then
    return nil
  end
  local record = read(text)
  if tonumber(redis.call('ZSCORE', leases, id) or '0') > now then
    return record
  end
  remove(id, record)
  return nil
end

local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, SWEPT)) do
    local text = redis.call('HGET', claims, id)
    if text then
      remove(id, read(text))
    else
      redis.call('ZREM', leases, id)
    end
  end
end

-- The first waiter whose lease is not over.
local function first()
  while true do
    local member = redis.call('ZRANGE', waiters, 0, 0)[1]
    if not member then
      return nil
    end
    local id = string.sub(member, -32)
    local record = find(id)
    if record then
      return id, record
    end
    redis.call('ZREM', waiters, member)
  end
end

-- Makes a holder of a claim.
local function grant(id, record, limit)
  record.token = next_token(record.token)
  record.since = now
  if limit == 1 then
    local left = tonumber(redis.call('ZSCORE', leases, id) or '0') - now
    remove(id, record)
    local value = holder_value(id, record.mark, record.token, now, record.priority, record.about)
    redis.call('SET', holder, value, 'PX', digits(math.max(left, 1)))
  else
    redis.call('ZREM', waiters, record.arrival .. id)
    record.state = 'H'
    write(id, record)
    redis.call('HINCRBY', claims, 'h', digits(record.weight))
    redis.call('HINCRBY', claims, 'k', 1)
  end
end

-- What is left of the capacity.
local function room(limit)
  if limit == 1 then
    return 1 - redis.call('EXISTS', holder)
  end
  return limit - number('h')
end

-- Tells a client. That nobody listens, or that we may not publish, takes nothing back: a poll stands behind it.
local function tell(record, what)
  if record.channel ~= '-' then
    redis.pcall('PUBLISH', record.channel, what)
  end
end

-- Lets in whoever fits, in order, and tells them; keeps nothing of a line that is empty.
local function admit()
  local limit = number('c')
  while true do
    local id, record = first()
    if not id or record.weight > room(limit) or quiet(record.ttl) > 0 then
      break
    end
    grant(id, record, limit)
    tell(record, id .. ' ' .. digits(record.token))
  end
  if redis.call('EXISTS', leases) == 0 then
    redis.call('DEL', claims, waiters)
  end
end
