INSERT IGNORE INTO {rows} (name) VALUES ({name});
