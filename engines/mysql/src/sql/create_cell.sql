INSERT IGNORE INTO {cells} (name, version, token, write_id, value) VALUES ({name}, 0, 0, x'', x'');
