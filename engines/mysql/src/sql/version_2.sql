-- Version 2: what `?hold=row` locks with `SELECT … FOR UPDATE`, one row for each name. Nothing ever changes in it, so
-- whoever has it locked keeps nobody else from the line.
CREATE TABLE IF NOT EXISTS {rows} (
    name VARBINARY(255) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
