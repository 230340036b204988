SELECT EXISTS (SELECT 1 FROM {locks} WHERE name = {name} AND id BETWEEN {first} AND {last} AND lease_end > UTC_TIMESTAMP(6))
    OR EXISTS (SELECT 1 FROM {claims} WHERE name = {name} AND id BETWEEN {first} AND {last} AND state < 2
               AND lease_end > UTC_TIMESTAMP(6));
