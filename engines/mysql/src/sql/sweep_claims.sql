-- Claims that are over, under names that nobody asks for, as the search found them.
DELETE FROM {claims} WHERE id IN ({ids}) AND lease_end <= UTC_TIMESTAMP(6);
