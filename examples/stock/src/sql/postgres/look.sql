SELECT quantity, version, updated_at::text FROM stock_items WHERE id = $1
