REPLACE INTO stock_items (id, quantity, version, updated_at, token) VALUES (:item, :quantity, 0, UTC_TIMESTAMP(6), 0)
