-- Whoever is first says so; it is never lowered.
UPDATE {schema} SET version = GREATEST(version, {version});
