SELECT quantity, version, CAST(updated_at AS CHAR) FROM stock_items WHERE id = :item
