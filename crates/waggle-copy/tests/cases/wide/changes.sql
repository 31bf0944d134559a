UPDATE t SET n = n + 1;
INSERT INTO t SELECT id + 10, n, b, t FROM t WHERE id = 1;
DELETE FROM t WHERE id = 2;
