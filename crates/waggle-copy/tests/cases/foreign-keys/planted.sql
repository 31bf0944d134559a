-- id=1: x
UPDATE child SET x = 7 WHERE id = 1;
