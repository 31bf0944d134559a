-- id=6: g
UPDATE t SET g = CONCAT(LEFT(g, 1000), x'00', SUBSTR(g, 1002)) WHERE id = 6;
-- id=3: v
UPDATE t SET v = '' WHERE id = 3;
-- id=1: l
UPDATE t SET l = NULL WHERE id = 1;
