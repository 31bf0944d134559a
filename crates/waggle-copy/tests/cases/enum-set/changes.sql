INSERT INTO t SELECT * FROM more;
UPDATE t SET n = n + 1 WHERE id % 2 = 1;
DELETE FROM t WHERE id = 2;
UPDATE keyed SET x = x + 10 WHERE e <> 'c';
UPDATE keyed SET e = 'c' WHERE e = 'a' AND id = 2;
DELETE FROM keyed WHERE e = 'b' AND id = 1;
