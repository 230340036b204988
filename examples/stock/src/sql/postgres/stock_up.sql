INSERT INTO stock_items VALUES ($1, $2, 0, clock_timestamp(), 0)
ON CONFLICT (id) DO UPDATE
SET quantity = excluded.quantity, version = 0, updated_at = excluded.updated_at, token = 0
