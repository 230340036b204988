SELECT version FROM {schema};
