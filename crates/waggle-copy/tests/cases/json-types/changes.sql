UPDATE t SET j = JSON_SET(j, '$.d', CAST(2.50 AS DECIMAL(5,2))) WHERE id = 1;
INSERT INTO t (k, id, n, j) VALUES ('z', 9, 1, JSON_ARRAY(CAST(1 AS DECIMAL(3,0))));
UPDATE every SET ts = '2021-02-03 04:05:06.789', bi = 'abc', bl = REPEAT('x', 200), vb = X'0102';
UPDATE t SET l = (SELECT JSON_OBJECT('ts', ts, 'bi', bi, 'bl', bl, 'vb', vb, 'b', b) FROM every)
  WHERE id IN (2, 5);
UPDATE t SET l = (SELECT JSON_SET(t.l, '$.ts', ts, '$.bi', bi, '$.bl', bl) FROM every)
  WHERE id = 1;
