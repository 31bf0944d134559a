-- b=18446744073709551615: x
UPDATE alone SET x = 99 WHERE x = 17;
-- b=511, id=21: x
UPDATE pairs SET x = 99 WHERE b = 511 AND id = 21;
