DELETE FROM parent WHERE id = 2;
UPDATE parent SET id = 9 WHERE id = 3;
