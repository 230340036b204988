DELETE FROM {claims} WHERE id = {id} AND name = {name};
