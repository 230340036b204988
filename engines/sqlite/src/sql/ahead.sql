-- How many claims are ahead of a waiter of this priority and number of arrival.
SELECT (SELECT count(*) FROM claims WHERE name = ?1 AND state = 0)
     + (SELECT count(*) FROM claims INDEXED BY waiting
        WHERE name = ?1 AND state = 1 AND (priority > ?2 OR (priority = ?2 AND arrived < ?3)))
