INSERT INTO cells (name, version, token, write_id, value) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, token = excluded.token, write_id = excluded.write_id, value = excluded.value
