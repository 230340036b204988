-- withdraw, the long way: somebody else is there.
local record = nil
if not held then
  record = find(id)
  if record then
    remove(id, record)
  end
end
sweep()
admit()
return {micros, (held or record) and 1 or 0}
