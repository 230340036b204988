-- Two changes can happen within one tick of the clock, and the clock can be set back: the time moves on all the same.
UPDATE stock_items
SET quantity = $2, updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
WHERE id = $1 AND updated_at = $3::text::timestamptz
