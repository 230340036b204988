-- Two changes can happen within one tick of the clock, and the clock can be set back: the time moves on all the same.
UPDATE stock_items SET quantity = :quantity, updated_at = GREATEST(UTC_TIMESTAMP(6), updated_at + INTERVAL 1 MICROSECOND)
WHERE id = :item AND updated_at = :updated_at
