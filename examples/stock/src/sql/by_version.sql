UPDATE stock_items SET quantity = :quantity, version = version + 1 WHERE id = :item AND version = :version
