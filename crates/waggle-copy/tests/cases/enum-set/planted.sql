-- id=1002: w
UPDATE t SET w = 'g2' WHERE id = 1002;
-- id=1: e
UPDATE t SET e = NULL WHERE id = 1;
