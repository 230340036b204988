UPDATE stock_items SET quantity = :quantity, token = :token WHERE id = :item AND token <= :token
