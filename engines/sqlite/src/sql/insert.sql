INSERT INTO claims (name, state, id, owner, weight, capacity, priority, arrived, token, lease_end, client, since, note, evicted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0)
