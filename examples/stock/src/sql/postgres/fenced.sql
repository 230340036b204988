UPDATE stock_items SET quantity = $2, token = $3 WHERE id = $1 AND token <= $3
