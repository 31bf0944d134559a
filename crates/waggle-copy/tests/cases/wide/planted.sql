-- id=1: b
UPDATE t SET b = CONCAT(LEFT(b, 4999999), x'01') WHERE id = 1;
