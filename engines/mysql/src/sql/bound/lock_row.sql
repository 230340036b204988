-- The lock itself: the transaction stays open for as long as it is held.
START TRANSACTION;
SELECT 1 FROM {rows} WHERE name = {name} {mode} {wait};
