-- id=1: j
UPDATE t SET j = '[]' WHERE id = 1;
-- id=3: k
UPDATE t SET k = '"é😀"' WHERE id = 3;
