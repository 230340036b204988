-- What `SELECT … FOR UPDATE` locks: one row for each name. Nothing ever changes in it, so that whoever has it locked
-- keeps nobody from counting tokens.
CREATE TABLE IF NOT EXISTS {rows} (
    name VARBINARY(255) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
