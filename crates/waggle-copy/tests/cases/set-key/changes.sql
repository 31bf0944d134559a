UPDATE alone SET x = x + 10 WHERE x IN (3, 8);
DELETE FROM alone WHERE x IN (4, 10);
INSERT INTO alone VALUES (9223372036854775812, 11);
UPDATE alone SET s = 9223372036854775813 WHERE x = 5;
UPDATE few SET x = x + 1000 WHERE s = 'b,1';
DELETE FROM few WHERE s = 'a' AND id % 2 = 1;
UPDATE few SET s = 'b,a,1' WHERE s = '' AND id % 3 = 0;
UPDATE empty_member SET s = 7 - s WHERE id < 4;
INSERT INTO empty_member VALUES (12, 2);
