-- k='A': x
UPDATE exact SET x = 99 WHERE k = 'A';
