-- id=1: b1
UPDATE t SET b1 = -9223372036854775807 WHERE id = 1;
-- id=3: o
UPDATE t SET o = 0 WHERE id = 3;
