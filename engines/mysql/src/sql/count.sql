UPDATE {locks} SET newest = {newest}, used = UTC_DATE() WHERE name = {name};
