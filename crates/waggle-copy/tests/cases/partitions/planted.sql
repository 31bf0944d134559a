-- id=2, d=2010-01-01: x
UPDATE t SET x = 9 WHERE id = 2;
