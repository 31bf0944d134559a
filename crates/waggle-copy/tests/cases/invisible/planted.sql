-- id=4: k
UPDATE t SET k = 'x' WHERE id = 4;
