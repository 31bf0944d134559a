-- id=1: f
UPDATE t SET f = f - 1 WHERE id = 1;
