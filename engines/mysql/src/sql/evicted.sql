SELECT COUNT(*) FROM {claims}
WHERE name = {name} AND id BETWEEN {first} AND {last} AND lease_end > UTC_TIMESTAMP(6) AND state < 2;
