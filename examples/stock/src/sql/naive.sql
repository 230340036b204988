UPDATE stock_items SET quantity = :quantity WHERE id = :item
