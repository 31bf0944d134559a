UPDATE t SET d = '2001-01-01' WHERE id = 1 AND d = '1999-01-01';
UPDATE h SET id = id + 100, x = x + 1;
DELETE FROM h WHERE x = 3;
