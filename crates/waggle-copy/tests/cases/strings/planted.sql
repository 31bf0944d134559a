-- id=4: v
UPDATE t SET v = 'a ' WHERE id = 4;
-- id=1: tx
UPDATE t SET tx = NULL WHERE id = 1;
-- id=5: lt
UPDATE t SET lt = CONCAT(LEFT(lt, 119999), 'X') WHERE id = 5;
-- id=4: c
UPDATE t SET c = 'A' WHERE id = 4;
-- id=5: u16
UPDATE t SET u16 = '😁' WHERE id = 5;
