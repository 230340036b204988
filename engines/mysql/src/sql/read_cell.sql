SELECT version, token, value FROM {cells} WHERE name = {name};
