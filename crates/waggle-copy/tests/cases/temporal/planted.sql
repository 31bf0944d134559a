-- id=3: d
UPDATE t SET d = '2021-01-01' WHERE id = 3;
-- id=5: t6
UPDATE t SET t6 = '00:00:00.000001' WHERE id = 5;
-- id=1: y
UPDATE t SET y = 2000 WHERE id = 1;
-- id=1: ts6
UPDATE t SET ts6 = NULL WHERE id = 1;
