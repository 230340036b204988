-- It is written down: nobody needs to be told any more.
DELETE LOW_PRIORITY FROM {released} WHERE id IN ({ids});
