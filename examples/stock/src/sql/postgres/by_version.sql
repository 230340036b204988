UPDATE stock_items SET quantity = $2, version = version + 1 WHERE id = $1 AND version = $3
