INSERT INTO t SELECT * FROM more;
UPDATE t SET n = n + 1 WHERE id % 2 = 1;
DELETE FROM t WHERE id = 2;
UPDATE keyed SET x = 9 WHERE x = 3;
DELETE FROM keyed WHERE x = 1;
SET time_zone = '+05:30';
UPDATE t SET ts0 = '2021-06-01 12:00:00' WHERE id = 4;
