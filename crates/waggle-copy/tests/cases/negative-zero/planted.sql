-- id=1: f
UPDATE t SET f = 1 WHERE id = 1;
UPDATE t SET f = 0 WHERE id = 1;
