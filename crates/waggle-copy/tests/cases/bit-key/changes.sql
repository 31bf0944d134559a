UPDATE alone SET x = x + 10 WHERE x IN (3, 7, 8);
DELETE FROM alone WHERE x IN (4, 9);
UPDATE alone SET b = 9223372036854775811 WHERE x = 5;
UPDATE pairs SET x = x + 1000 WHERE b = 73;
DELETE FROM pairs WHERE b = 146 AND id % 2 = 0;
UPDATE pairs SET b = 511 WHERE b = 0 AND id % 3 = 0;
UPDATE flags SET x = 9 WHERE id = 1 AND b = 1;
DELETE FROM flags WHERE id = 1 AND b = 0;
