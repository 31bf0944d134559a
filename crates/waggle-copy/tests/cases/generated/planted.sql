-- id=1: a, v, s
UPDATE t SET a = 77 WHERE id = 1;
