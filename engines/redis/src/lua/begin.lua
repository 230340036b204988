-- The keys of one lock, and the server's time.
--
--   holder   a string, for a lock of capacity 1: who holds it. It is what every `SET key value NX PX` lock uses, so
--            such locks of other programs exclude ours and ours exclude them. Redis itself ends it.
--   claims   a hash: the waiters, and the holders of a lock of any other capacity, by their ids; and
--            c capacity, h weight of the holders together, k their number, n arrivals so far, x when the keys expire
--   waiters  a sorted set: arrival and id of those that wait; the score is the priority, negated
--   leases   a sorted set: the id of everyone in `claims`; the score is the end of the lease in milliseconds
--   counter  the newest token, the run id of the server process that gave it, and since when that process counts
-- ARGV begins with the run id of the process that this connection leads to, and when that process was started.
--
-- TIME is the server's clock. It may be read before writing because scripts are replicated by their effects (the only
-- way since Redis 7.0, the default since 5.0: "Scripts replication" in "Scripting with Lua").
local holder, claims, waiters, leases, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local run, started = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

-- Lua would write large numbers as 1e+15.
local function digits(number)
  return string.format('%.0f', number)
end

-- A server that was restarted, or took over from another, may have forgotten grants that their holders still believe
-- in. So a new process gives nothing away until every lease must be over that its predecessor may have given: for as
-- long as the lease that is asked for, since all claims on a name usually ask for the same. (These are the "delayed
-- restarts" of "Distributed Locks with Redis".) Where no predecessor left a word, there may have been one that lost
-- everything: then it counts from the start of the process.
-- The counter is a script's first write: a server that is out of memory refuses it, and nothing has been done.
local A_SECOND = 1048576
local token, since = nil, nil

local function count()
  local stored = redis.call('GET', counter)
  local last, by, from = string.match(stored or '', '^(%d+) (%S+) (%d+)$')
  token = tonumber(last)
  if by == run and tonumber(from) <= now then
    since = tonumber(from)
  else
    -- From now on it is known since when: also if nothing else comes of this call. A process cannot have begun in the
    -- future: then the clock was set back, and it begins anew.
    since = math.min(stored and now or started, now)
    token = token or (time[1] + 1) * A_SECOND
    redis.call('SET', counter, digits(token) .. ' ' .. run .. ' ' .. digits(since))
  end
end

-- How long nothing is to be given to a claim with this lease.
local function quiet(ttl)
  if not since then
    count()
  end
  return math.max(since + ttl - now, 0)
end

-- The token of a new grant: larger than the one before, not smaller than the floor, and never behind the server's
-- clock, with room for a million grants a second. So tokens go on growing when the counter was lost with the server's
-- memory, or was read back from an old snapshot. Whole seconds, so that the members of a quorum, whose clocks differ a
-- little, mostly count alike; a counter that was lost goes on with the next second.
local function next_token(floor)
  if not since then
    count()
  end
  token = math.max(token + 1, time[1] * A_SECOND, floor)
  redis.call('SET', counter, digits(token) .. ' ' .. run .. ' ' .. digits(since))
  return token
end

-- A holder's token is raised to the floor, and to no other number: the members of a quorum agree on it that way.
local function raise_token(floor)
  if not since then
    count()
  end
  if token < floor then
    token = floor
    redis.call('SET', counter, digits(token) .. ' ' .. run .. ' ' .. digits(since))
  end
  return floor
end

-- What the holder's key says: 32 digits of the id, a mark (- nothing, e evicted, l lingers, b both), token, since when,
-- priority, and a text for people.
local function holder_value(id, mark, token, since, priority, about)
  return id .. mark .. ' ' .. digits(token) .. ' ' .. digits(since) .. ' ' .. digits(priority) .. ' ' .. about
end
