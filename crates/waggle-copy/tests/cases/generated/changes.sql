INSERT INTO t (id, n, a, b) SELECT * FROM more;
UPDATE t SET n = n + 1, a = a + 1 WHERE id % 2 = 1;
DELETE FROM t WHERE id = 2;
