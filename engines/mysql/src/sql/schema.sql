-- Which version the tables have: one row.
CREATE TABLE IF NOT EXISTS {schema} (
    only_row TINYINT UNSIGNED NOT NULL,
    version  INT UNSIGNED     NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB;
INSERT IGNORE INTO {schema} (only_row, version) VALUES (1, 0);
