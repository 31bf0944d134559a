INSERT INTO t SELECT * FROM more;
UPDATE t SET n = n + 1 WHERE id % 2 = 1;
UPDATE t SET j = JSON_SET(j, '$.a[0]', 'changed'), k = '[[1.0]]' WHERE id = 4;
UPDATE t SET j = JSON_REPLACE(j, '$[1]', 2) WHERE id = 7;
DELETE FROM t WHERE id = 2;
